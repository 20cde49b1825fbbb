// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/fusion/merged_kernel.h"

#include <utility>

#include "runtime/ir/hint.h"

namespace plimsoll::passes {

using ir::Instruction;
using ir::Opcode;

std::vector<Instruction*> kernel_members(const ir::Computation& body) {
  std::vector<Instruction*> members;
  for (auto it = body.instructions().rbegin(); it != body.instructions().rend(); ++it) {
    Instruction& member = **it;
    if (member.opcode() == Opcode::parameter) continue;
    if (member.opcode() == Opcode::tuple && &member == body.root()) continue;
    if (!is_fusible(member) || !member.shape().is_array()) return {};
    members.push_back(&member);
  }
  return members;
}

std::optional<FusionProfile> profile_of_kernel(const ir::Computation& body,
                                               const KernelSpeeds& speeds) {
  const std::vector<Instruction*> members = kernel_members(body);
  if (members.empty()) return std::nullopt;
  const std::vector<Instruction*> roots = body.root()->opcode() == Opcode::tuple
                                              ? body.root()->operands()
                                              : std::vector<Instruction*>{body.root()};
  for (const Instruction* root : roots) {
    if (root->opcode() == Opcode::parameter) return std::nullopt;
  }
  return examine_fusion(members, roots, speeds);
}

std::optional<std::vector<Instruction*>> kernel_outputs(Instruction& kernel) {
  if (kernel.shape().is_array()) return std::vector<Instruction*>{&kernel};
  if (kernel.is_root()) return std::nullopt;
  for (const Instruction* user : kernel.users()) {
    if (user->opcode() != Opcode::get_tuple_element || !user->control_predecessors().empty() ||
        !user->control_successors().empty()) {
      return std::nullopt;
    }
  }
  return kernel.users();
}

MergedKernel add_merged_kernel(ir::Computation& computation, FusedBody& body, ir::FusionKind kind,
                               const std::vector<Instruction*>& outputs) {
  ir::Attributes attributes;
  attributes.fusion_kind = kind;
  Instruction* const root = computation.root();
  MergedKernel merged;
  merged.fusion =
      computation.add(Opcode::fusion, body.computation()->root()->shape(), body.inputs(),
                      fusion_name(*body.computation()), std::move(attributes));
  merged.fusion->set_called_computations({body.release()});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    merged.outputs.push_back(
        outputs.size() == 1
            ? merged.fusion
            : computation.add_get_tuple_element(merged.fusion, static_cast<std::int64_t>(i)));
  }
  computation.set_root(root);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ir::set_hint(merged.outputs[i]->attributes(), ir::hint_of(*outputs[i]));
    outputs[i]->replace_all_uses_with(merged.outputs[i]);
  }
  return merged;
}

}  // namespace plimsoll::passes
