// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/horizontal_fusion.h"

#include <algorithm>

namespace plimsoll::ir {

namespace {

bool reads_parameters_only(const Instruction& part) {
  return std::all_of(
      part.operands().begin(), part.operands().end(),
      [](const Instruction* operand) { return operand->opcode() == Opcode::parameter; });
}

bool is_tuple_fusion(const Instruction& instruction) {
  return instruction.opcode() == Opcode::fusion && instruction.called_computations().size() == 1 &&
         instruction.to_apply()->root()->opcode() == Opcode::tuple;
}

}  // namespace

std::vector<const Instruction*> horizontal_parts(const Instruction& instruction) {
  if (!is_tuple_fusion(instruction)) return {};
  const Computation& computation = *instruction.to_apply();
  std::vector<const Instruction*> parts;
  for (const auto& inner : computation.instructions()) {
    switch (inner->opcode()) {
      case Opcode::parameter:
        break;
      case Opcode::fusion:
        if (!reads_parameters_only(*inner)) return {};
        parts.push_back(inner.get());
        break;
      case Opcode::get_tuple_element:
        if (inner->operand(0)->opcode() != Opcode::fusion) return {};
        break;
      default:
        if (inner.get() != computation.root()) return {};
    }
  }
  const auto& results = computation.root()->operands();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (horizontal_result(instruction, static_cast<int>(i)).part == nullptr) return {};
  }
  return parts;
}

PartResult horizontal_result(const Instruction& instruction, int leaf) {
  if (!is_tuple_fusion(instruction)) return {};
  const Instruction& root = *instruction.to_apply()->root();
  if (leaf >= root.operand_count() || !root.operand(leaf)->shape().is_array()) return {};
  const Instruction* result = root.operand(leaf);
  int of_part = 0;
  if (result->opcode() == Opcode::get_tuple_element) {
    of_part = static_cast<int>(result->attributes().tuple_index);
    result = result->operand(0);
    // Arrays only, so that a result's number is its leaf's.
    const auto& elements = result->shape().elements();
    if (!std::all_of(elements.begin(), elements.end(),
                     [](const Shape& element) { return element.is_array(); })) {
      return {};
    }
  }
  if (result->opcode() != Opcode::fusion || !reads_parameters_only(*result)) return {};
  return {result, of_part};
}

}  // namespace plimsoll::ir
