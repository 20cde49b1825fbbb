// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "runtime/base/index.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Dims;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

using Values = std::vector<std::int64_t>;

bool is_identity(const Values& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

// The dims that hold more than one element stay in their order.
bool keeps_element_order(const Values& permutation, const Dims& dims) {
  std::int64_t last = -1;
  for (std::int64_t d : permutation) {
    if (dims[static_cast<int>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  return true;
}

Instruction* add_reshape(Rewriter& rewriter, const Shape& shape, Instruction* operand) {
  return rewriter.add(Opcode::reshape, Shape(shape.dtype(), shape.dims()), {operand});
}

Instruction* add_broadcast(Rewriter& rewriter, const Shape& shape, Instruction* operand,
                           Values dimensions) {
  Attributes attributes;
  attributes.dimensions = std::move(dimensions);
  return rewriter.add(Opcode::broadcast, Shape(shape.dtype(), shape.dims()), {operand},
                      std::move(attributes));
}

// Dim i of a transpose is dim permutation[i] of its operand. So
// - of two in a row, dim i is dim inner[outer[i]] of the first operand: {1,2,0} and then {2,0,1}
//   give {0,1,2}, nothing at all;
// - a broadcast that put its operand's dim at d has it, once transposed, where the permutation says
//   d: f32[8] at {0} of [8,100], transposed by {1,0}, is f32[8] at {1} of [100,8].
Instruction* simplify_transpose(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  const Values& permutation = at.attributes().dimensions;
  if (is_identity(permutation)) return operand;
  if (keeps_element_order(permutation, operand->shape().dims())) {
    return add_reshape(rewriter, at.shape(), operand);
  }
  if (operand->opcode() == Opcode::transpose) {
    Attributes attributes;
    for (std::int64_t d : permutation) {
      attributes.dimensions.push_back(
          operand->attributes().dimensions[static_cast<std::size_t>(d)]);
    }
    return rewriter.add(Opcode::transpose, at.shape(), {operand->operand(0)},
                        std::move(attributes));
  }
  if (operand->opcode() == Opcode::broadcast) {
    Values dimensions;
    for (std::int64_t d : operand->attributes().dimensions) {
      const auto to = std::find(permutation.begin(), permutation.end(), d);
      dimensions.push_back(to - permutation.begin());
    }
    return add_broadcast(rewriter, at.shape(), operand->operand(0), std::move(dimensions));
  }
  return nullptr;
}

// A reshape keeps the order of the elements and forgets all else, so that of several in a row only
// the last one's shape matters.
Instruction* simplify_reshape(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  if (operand->shape() == at.shape()) return operand;
  if (operand->opcode() == Opcode::reshape) {
    return add_reshape(rewriter, at.shape(), operand->operand(0));
  }
  if (is_scalar_broadcast(*operand) && operand->operand(0)->shape().is_scalar()) {
    return add_broadcast(rewriter, at.shape(), operand->operand(0), {});
  }
  return nullptr;
}

// Broadcasts in a row are one: an operand's dim goes where the second puts what the first made of
// it. f32[8] at {0} of [8,4], which stands at {1,2} of [5,8,4], is f32[8] at {1} of [5,8,4].
Instruction* simplify_broadcast(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  const Values& dimensions = at.attributes().dimensions;
  const bool ordered = std::is_sorted(dimensions.begin(), dimensions.end());
  if (operand->shape() == at.shape() && ordered) return operand;
  // Only dims of size one are new.
  if (ordered && operand->shape().element_count() == at.shape().element_count()) {
    return add_reshape(rewriter, at.shape(), operand);
  }
  if (operand->opcode() == Opcode::broadcast) {
    Values composed;
    for (std::int64_t d : operand->attributes().dimensions) {
      composed.push_back(dimensions[static_cast<std::size_t>(d)]);
    }
    return add_broadcast(rewriter, at.shape(), operand->operand(0), std::move(composed));
  }
  // A single element is best a scalar: that is what splats are recognised by.
  if (operand->shape().element_count() == 1 && !operand->shape().is_scalar()) {
    Instruction* scalar = add_reshape(rewriter, Shape(operand->shape().dtype(), Dims()), operand);
    return add_broadcast(rewriter, at.shape(), scalar, {});
  }
  return nullptr;
}

// Along a dim of one element, or where all elements are the same, there is nothing to reverse; what
// is reversed twice is as it was.
Instruction* simplify_reverse(Rewriter& rewriter, Instruction& at) {
  Instruction* operand = at.operand(0);
  Values kept;
  for (std::int64_t d : at.attributes().dimensions) {
    if (at.shape().dim(static_cast<int>(d)) > 1) kept.push_back(d);
  }
  if (kept.empty()) return operand;
  if (operand->opcode() == Opcode::reverse && operand->attributes().dimensions == kept) {
    return operand->operand(0);
  }
  if (is_scalar_broadcast(*operand)) return operand;
  if (kept.size() == at.attributes().dimensions.size()) return nullptr;
  Attributes attributes;
  attributes.dimensions = std::move(kept);
  return rewriter.add(Opcode::reverse, at.shape(), {operand}, std::move(attributes));
}

bool has_layout(const Instruction& instruction) { return instruction.shape().layout() != nullptr; }

}  // namespace

Instruction* simplify_movement(Rewriter& rewriter, Instruction& at) {
  switch (at.opcode()) {
    case Opcode::copy: {
      Instruction* operand = at.operand(0);
      const bool plain = at.shape().is_array() && !has_layout(at) && !has_layout(*operand);
      return plain && operand->shape() == at.shape() ? operand : nullptr;
    }
    case Opcode::bitcast: {
      Instruction* operand = at.operand(0);
      if (has_layout(at) || has_layout(*operand) ||
          operand->shape().dtype() != at.shape().dtype()) {
        return nullptr;
      }
      return add_reshape(rewriter, at.shape(), operand);
    }
    case Opcode::transpose:
      return simplify_transpose(rewriter, at);
    case Opcode::reshape:
      return simplify_reshape(rewriter, at);
    case Opcode::broadcast:
      return simplify_broadcast(rewriter, at);
    case Opcode::reverse:
      return simplify_reverse(rewriter, at);
    default:
      return nullptr;
  }
}

}  // namespace plimsoll::passes
