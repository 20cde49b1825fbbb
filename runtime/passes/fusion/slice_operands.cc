// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/ir/fusions/sliced_operands.h"
#include "runtime/ir/hint.h"
#include "runtime/ir/shown.h"
#include "runtime/passes/fusion/fused_body.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/rewriter.h"

namespace plimsoll::passes {
namespace {

using ir::Instruction;
using ir::Opcode;

// Below, a copy costs next to nothing, and stays where others may use it.
constexpr std::int64_t kLeastBytes = 4096;

// What the program or the loop is given, and has all the time.
bool is_given(const Instruction& array) {
  const Instruction* value = &array;
  while (value->opcode() == Opcode::get_tuple_element || value->opcode() == Opcode::reshape) {
    value = value->operand(0);
  }
  return value->opcode() == Opcode::parameter && array.shape().is_array();
}

// Whether products read `value`, as it is or by views, and nothing else but kernels of elements, of
// which the slice becomes a part: an optimizer's step of the weights, say.
bool is_read_by_products(const Instruction& value) {
  return !value.is_root() && value.control_predecessors().empty() &&
         value.control_successors().empty() &&
         std::all_of(value.users().begin(), value.users().end(), [](const Instruction* user) {
           return (user->opcode() == Opcode::dot && user->operand(0) != user->operand(1)) ||
                  (ir::is_view(*user) && is_read_by_products(*user)) ||
                  (ir::is_elementwise(user->opcode()) && !ir::must_materialize(*user));
         });
}

// The slice and its views, the operand last; empty where others read any of them, which then wait
// for a copy in any case, or it is none.
std::vector<Instruction*> slice_chain(Instruction* operand) {
  const Instruction* const slice = ir::contiguous_slice(*operand);
  if (slice == nullptr || slice->shape().byte_size() < kLeastBytes ||
      !is_given(*slice->operand(0))) {
    return {};
  }
  std::vector<Instruction*> chain;
  for (Instruction* value = operand;; value = value->operand(0)) {
    chain.insert(chain.begin(), value);
    if (value != slice) continue;
    if (!is_read_by_products(*slice)) chain.clear();
    return chain;
  }
}

Instruction* slice_dot(Rewriter& rewriter, Instruction& at) {
  if (at.opcode() != Opcode::dot || at.operand(0) == at.operand(1)) return nullptr;
  // Kernels have constants packed before.
  for (const Instruction* operand : at.operands()) {
    if (operand->opcode() == Opcode::constant) return nullptr;
  }
  std::vector<Instruction*> members;
  for (Instruction* const operand : at.operands()) {
    const std::vector<Instruction*> chain = slice_chain(operand);
    members.insert(members.end(), chain.begin(), chain.end());
  }
  if (members.empty()) return nullptr;
  FusedBody body(*rewriter.computation().module());
  for (Instruction* const member : members) body.add(*member);
  body.add(at);
  body.finish({body.value(&at)});
  ir::Attributes attributes;
  attributes.fusion_kind = ir::FusionKind::custom;
  for (const auto& [name, text] : at.attributes().extra) {
    if (name == "metadata") attributes.extra.emplace_back(name, text);
  }
  ir::set_hint(attributes, ir::hint_of(at));
  Instruction* const fusion =
      rewriter.add(Opcode::fusion, at.shape(), body.inputs(), std::move(attributes));
  fusion->set_called_computations({body.release()});
  return fusion;
}

}  // namespace

Result<bool> slice_operands(ir::Module& module) {
  bool changed = false;
  for (ir::Computation* const computation : programs_of(module)) {
    Rewriter rewriter(*computation);
    PLIMSOLL_ASSIGN_OR_RETURN(const bool swept, rewriter.sweep(slice_dot));
    changed = changed || swept;
  }
  return changed;
}

}  // namespace plimsoll::passes
