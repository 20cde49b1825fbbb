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

std::vector<Instruction*> results_of(const Computation& fused) {
  Instruction* const root = fused.root();
  return root->opcode() == Opcode::tuple ? root->operands() : std::vector<Instruction*>{root};
}

bool is_update(const Instruction& value) { return value.opcode() == Opcode::dynamic_update_slice; }

// Follows `parameter`, an array of `count` elements, through a fused loop to its stores; false when
// some path reads it at another index than it stores to. With `updates`, stores are those of the
// elements that they write as well.
bool read_at_stored_index(const Instruction* parameter, const Instruction* root, std::int64_t count,
                          bool updates) {
  std::unordered_set<const Instruction*> seen = {parameter};
  std::vector<const Instruction*> work = {parameter};
  while (!work.empty()) {
    const Instruction* value = work.back();
    work.pop_back();
    for (const Instruction* user : value->users()) {
      if (user == root && user->opcode() == Opcode::tuple) continue;
      if (updates && is_update(*user)) {
        if (user->operand(1) != value || occurrences(*user, value) != 1) return false;
        continue;
      }
      if (user->opcode() == Opcode::reduce && !updates) {
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

bool same_number(const Instruction* a, const Instruction* b) {
  return a == b || (a->opcode() == Opcode::constant && b->opcode() == Opcode::constant &&
                    *a->attributes().literal == *b->attributes().literal);
}

// Whether the last operands of both, from these on, are the same place.
bool same_place(const Instruction& a, int first_of_a, const Instruction& b, int first_of_b) {
  if (a.operand_count() - first_of_a != b.operand_count() - first_of_b) return false;
  for (int i = 0; first_of_a + i < a.operand_count(); ++i) {
    if (!same_number(a.operand(first_of_a + i), b.operand(first_of_b + i))) return false;
  }
  return true;
}

// Whether `slice` takes what `update` replaces: as many elements from the same place, which both
// clamp alike.
bool takes_what_is_updated(const Instruction& slice, const Instruction& update) {
  return slice.opcode() == Opcode::dynamic_slice && slice.operand(0) == update.operand(0) &&
         slice.shape().dims() == update.operand(1)->shape().dims() &&
         occurrences(slice, slice.operand(0)) == 1 && same_place(slice, 1, update, 2);
}

// Of a fusion that ends in `update`, of `parameter`, and maybe others at the same place: nothing is
// read of the buffer, or what is replaced, where its new elements are stored. Elements outside the
// update stay as they are.
//
// Example: w' = dynamic-update-slice(w, dynamic-slice(w, i) - g, i), a round of a loop that goes
// through the layers of a network: element k of the slice is read, changed and put back.
bool is_updated_in_place(const Instruction* parameter, const Instruction& update) {
  return update.operand(0) == parameter && occurrences(update, parameter) == 1 &&
         std::all_of(parameter->users().begin(), parameter->users().end(),
                     [&](const Instruction* user) {
                       return user == &update || reads_what_it_replaces(*user, update);
                     });
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
  const std::vector<Instruction*> roots = results_of(fused);
  if (output_leaf >= static_cast<int>(roots.size())) return false;
  const Instruction* output = roots[at(output_leaf)];
  if (!output->shape().is_array() || output->shape().element_count() != shape.element_count()) {
    return false;
  }

  const bool updates = std::any_of(roots.begin(), roots.end(),
                                   [](const Instruction* result) { return is_update(*result); });
  const Instruction* parameter = fused.parameters()[at(operand)];
  if (updates) {
    return is_update(*output) && (roots.size() == 1 || updates_at_one_place(fused)) &&
           is_updated_in_place(parameter, *output) &&
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
    if (!read_at_stored_index(same, root, loop_count, /*updates=*/false)) return false;
  }
  return true;
}

}  // namespace

bool reads_what_it_replaces(const Instruction& slice, const Instruction& update) {
  return takes_what_is_updated(slice, update) &&
         read_at_stored_index(&slice, slice.parent()->root(),
                              update.operand(1)->shape().element_count(), /*updates=*/true);
}

bool differ_in_ones_only(const Dims& a, const Dims& b) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a.size() && a[i] == 1) ++i;
    while (j < b.size() && b[j] == 1) ++j;
    if (i == a.size() || j == b.size()) return i == a.size() && j == b.size();
    if (a[i++] != b[j++]) return false;
  }
}

bool updates_at_one_place(const Computation& fused) {
  const std::vector<Instruction*> results = results_of(fused);
  const auto first = std::find_if(results.begin(), results.end(),
                                  [](const Instruction* result) { return is_update(*result); });
  if (first == results.end()) return false;
  for (const auto& instruction : fused.instructions()) {
    if (instruction->opcode() == Opcode::reduce) return false;
  }
  const Dims& dims = (*first)->operand(1)->shape().dims();
  return std::all_of(results.begin(), results.end(), [&](const Instruction* result) {
    if (!is_update(*result)) {
      return result->shape().is_array() && differ_in_ones_only(result->shape().dims(), dims);
    }
    return result->operand(0)->opcode() == Opcode::parameter &&
           std::count(results.begin(), results.end(), result) == 1 &&
           result->operand(1)->shape().dims() == dims && same_place(*result, 2, **first, 2);
  });
}

bool updates_in_place(const Computation& fused) {
  const std::vector<Instruction*> results = results_of(fused);
  return updates_at_one_place(fused) &&
         std::all_of(results.begin(), results.end(), [](const Instruction* result) {
           return !is_update(*result) || is_updated_in_place(result->operand(0), *result);
         });
}

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
