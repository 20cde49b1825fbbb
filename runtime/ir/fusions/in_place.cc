// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/in_place.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/fusions/horizontal_fusion.h"

namespace plimsoll::ir {
namespace {

struct OperandLeaf {
  int operand = -1;  // -1: no such leaf
  int leaf = 0;      // within the operand
  const Shape* shape = nullptr;
};

OperandLeaf find_operand_leaf(const Instruction& instruction, int operand_leaf) {
  for (int i = 0; i < instruction.operand_count(); ++i) {
    const Shape& shape = instruction.operand(i)->shape();
    const int count = leaf_count(shape);
    if (operand_leaf < count) {
      return {i, operand_leaf, leaves(shape)[at(operand_leaf)]};
    }
    operand_leaf -= count;
  }
  return {};
}

int occurrences(const Instruction& instruction, const Instruction* operand) {
  return static_cast<int>(
      std::count(instruction.operands().begin(), instruction.operands().end(), operand));
}

// One result element from the operand element at the same linear index.
bool keeps_linear_index(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::reshape:
      return true;
    case Opcode::bitcast: {
      const Shape& from = instruction.operand(0)->shape();
      return from.layout() == nullptr && instruction.shape().layout() == nullptr &&
             from.element_count() == instruction.shape().element_count();
    }
    default:
      return is_elementwise(instruction.opcode()) && instruction.shape().is_array();
  }
}

// Follows `parameter`, an array of `count` elements, through a fused loop to its stores; false when
// some path reads it at another index than it stores to.
bool read_at_stored_index(const Instruction* parameter, const Instruction* root,
                          std::int64_t count) {
  std::unordered_set<const Instruction*> seen = {parameter};
  std::vector<const Instruction*> work = {parameter};
  while (!work.empty()) {
    const Instruction* value = work.back();
    work.pop_back();
    for (const Instruction* user : value->users()) {
      if (user == root && user->opcode() == Opcode::tuple) continue;
      if (user->opcode() == Opcode::reduce) {
        // Each element is read once, where the loop stands; what comes out is stored elsewhere.
        const auto& operands = user->operands();
        const auto initial = operands.begin() + static_cast<std::ptrdiff_t>(operands.size() / 2);
        if (std::find(initial, operands.end(), value) != operands.end()) return false;
        continue;
      }
      if (!keeps_linear_index(*user) || user->shape().element_count() != count) return false;
      if (seen.insert(user).second) work.push_back(user);
    }
  }
  return true;
}

// Parts run in any order and at the same time, so that nothing but the part that writes the buffer
// may read it.
bool part_may_reuse(const Instruction& fusion, int operand, PartResult result) {
  const Instruction* parameter = fusion.to_apply()->parameters()[at(operand)];
  if (parameter->users().size() != 1 || parameter->users()[0] != result.part ||
      occurrences(fusion, fusion.operand(operand)) != 1) {
    return false;
  }
  const auto& operands = result.part->operands();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == parameter &&
        !may_reuse_operand(*result.part, static_cast<int>(i), result.leaf)) {
      return false;
    }
  }
  return true;
}

bool fusion_may_reuse(const Instruction& fusion, int operand, const Shape& shape, int output_leaf) {
  // A kernel of its own may read any operand to the end.
  if (fusion.attributes().fusion_kind == FusionKind::custom) return false;
  const Computation& fused = *fusion.to_apply();
  if (const PartResult result = horizontal_result(fusion, output_leaf); result.part != nullptr) {
    return part_may_reuse(fusion, operand, result);
  }
  const Instruction* root = fused.root();
  const bool many = root->opcode() == Opcode::tuple;
  const std::vector<Instruction*> roots =
      many ? root->operands() : std::vector<Instruction*>{fused.root()};
  if (output_leaf >= static_cast<int>(roots.size())) return false;
  const Instruction* output = roots[at(output_leaf)];
  if (!output->shape().is_array() || output->shape().element_count() != shape.element_count()) {
    return false;
  }

  const bool updates = std::any_of(roots.begin(), roots.end(), [](const Instruction* r) {
    return r->opcode() == Opcode::dynamic_update_slice;
  });
  const Instruction* parameter = fused.parameters()[at(operand)];
  if (updates) {
    // Elements outside the update stay as they are only if nothing else touches the buffer.
    return !many && output->operand(0) == parameter && parameter->users().size() == 1 &&
           occurrences(*output, parameter) == 1 &&
           occurrences(fusion, fusion.operand(operand)) == 1;
  }

  // Kernels write the parts of such a result one after the other, not element by element.
  if (output->opcode() == Opcode::concatenate || output->opcode() == Opcode::pad) return false;

  // The loop runs over the reduced array where there is a reduction, else over the result.
  std::int64_t loop_count = output->shape().element_count();
  for (const auto& instruction : fused.instructions()) {
    if (instruction->opcode() == Opcode::reduce) {
      loop_count = instruction->operand(0)->shape().element_count();
      // A result of the reduction's own size says nothing about when the loop stores it.
      if (first_leaf(instruction->shape()).element_count() == loop_count) return false;
    }
  }
  if (output->shape().element_count() != loop_count) return false;
  for (const Instruction* other : roots) {
    if (!other->shape().is_array()) return false;
  }

  for (int i = 0; i < fusion.operand_count(); ++i) {
    if (fusion.operand(i) != fusion.operand(operand)) continue;
    const Instruction* same = fused.parameters()[at(i)];
    if (!read_at_stored_index(same, root, loop_count)) return false;
  }
  return true;
}

}  // namespace

bool may_reuse_operand(const Instruction& instruction, int operand_leaf, int output_leaf) {
  const OperandLeaf from = find_operand_leaf(instruction, operand_leaf);
  if (from.operand < 0 || output_leaf < 0 || output_leaf >= leaf_count(instruction.shape())) {
    return false;
  }
  const Shape& to = *leaves(instruction.shape())[at(output_leaf)];
  if (!from.shape->is_array() || !to.is_array() || from.shape->byte_size() != to.byte_size()) {
    return false;
  }
  const Instruction* operand = instruction.operand(from.operand);
  switch (instruction.opcode()) {
    case Opcode::fusion:
      return operand->shape().is_array() &&
             fusion_may_reuse(instruction, from.operand, *from.shape, output_leaf);
    case Opcode::dynamic_update_slice:
      return from.operand == 0 && occurrences(instruction, operand) == 1;
    case Opcode::all_reduce:
      // Each element of every member's array is read, and then written, by one of them alone.
      return from.operand == output_leaf && from.shape->dtype() == to.dtype() &&
             occurrences(instruction, operand) == 1;
    case Opcode::scatter:
      return from.operand == output_leaf && from.operand < instruction.operand_count() / 2 &&
             occurrences(instruction, operand) == 1;
    default:
      return keeps_linear_index(instruction) && from.shape->element_count() == to.element_count();
  }
}

}  // namespace plimsoll::ir
