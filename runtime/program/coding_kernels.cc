// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/coding_kernels.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/ir/fusions/horizontal_fusion.h"
#include "runtime/program/fused_decode.h"
#include "runtime/program/fused_encode.h"

namespace plimsoll::executor {
namespace {

using ir::Computation;
using ir::Instruction;
using ir::Opcode;

// The instruction's computation in `module`; of one that is no fusion, it alone.
Computation* body_of(const Instruction& instruction, ir::Module& module) {
  if (instruction.opcode() == Opcode::fusion) return module.add_clone(*instruction.to_apply());
  Computation* const body = module.add_computation("body");
  std::vector<Instruction*> operands;
  for (const Instruction* operand : instruction.operands()) {
    operands.push_back(
        body->add_parameter(static_cast<std::int64_t>(operands.size()), operand->shape()));
  }
  body->add(instruction.opcode(), instruction.shape(), std::move(operands), instruction.name(),
            instruction.attributes());
  return body;
}

}  // namespace

bool can_code(const Instruction& instruction) {
  // One leaf an operand.
  for (const Instruction* operand : instruction.operands()) {
    if (!operand->shape().is_array()) return false;
  }
  if (instruction.opcode() != Opcode::fusion) {
    return ir::is_elementwise(instruction.opcode()) && instruction.shape().is_array();
  }
  return instruction.called_computations().size() == 1 &&
         instruction.to_apply()->instruction_count() <= kMostCodingInstructions &&
         ir::horizontal_parts(instruction).empty();
}

std::unique_ptr<ir::Module> with_coding(const Instruction& instruction, const ir::Coding& coding,
                                        const std::vector<bool>& only_code) {
  auto module = std::make_unique<ir::Module>("coding");
  Computation* const body = body_of(instruction, *module);
  // First what may change dims.
  const std::vector<Instruction*> codes = fuse_encode(*body, coding.outputs);
  for (const ir::EncodedInput& input : coding.inputs) fuse_decode(*body, input);
  if (!codes.empty()) {
    std::vector<Instruction*> results{body->root()};
    if (body->root()->opcode() == Opcode::tuple) results = body->root()->operands();
    std::vector<Instruction*> kept;
    for (std::size_t leaf = 0; leaf < results.size(); ++leaf) {
      if (!only_code[leaf]) kept.push_back(results[leaf]);
    }
    kept.insert(kept.end(), codes.begin(), codes.end());
    body->set_root(kept.size() == 1 ? kept.front() : body->add_tuple(std::move(kept)));
  }
  body->remove_dead();
  (void)body->sort_topologically();  // there is no cycle
  Computation* const entry = module->add_computation("entry");
  std::vector<Instruction*> arguments;
  for (const Instruction* parameter : body->parameters()) {
    arguments.push_back(
        entry->add_parameter(static_cast<std::int64_t>(arguments.size()), parameter->shape()));
  }
  Instruction* const fusion =
      entry->add(Opcode::fusion, body->root()->shape(), std::move(arguments), instruction.name());
  fusion->set_called_computations({body});
  module->set_entry(entry);
  return module;
}

}  // namespace plimsoll::executor
