// SPDX-License-Identifier: Apache-2.0
#include "runtime/passes/layout/drop_unit_dims.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/rewriter.h"
#include "runtime/passes/simplify/simplify_rules.h"

namespace plimsoll::passes {

using ir::Attributes;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

namespace {

using Ints = std::vector<std::int64_t>;

// An array's dims with some left out: where each goes (-1: nowhere), and the shape that is left.
struct Dropping {
  Ints place;
  Shape shape;
  bool drops = false;

  Dropping(const Shape& from, const std::vector<bool>& dropped) {
    ir::Dims dims;
    for (int d = 0; d < from.rank(); ++d) {
      const bool drop = dropped[at(d)];
      place.push_back(drop ? -1 : dims.size());
      drops = drops || drop;
      if (!drop) dims.push_back(from.dim(d));
    }
    shape = Shape(from.dtype(), dims);
  }
  // The numbers of those of `dims` that are left. Of [4,1,6] without its unit dims, where the
  // places are {0,-1,1}, {2,1} becomes {1}.
  Ints map(const Ints& dims) const {
    Ints result;
    for (const std::int64_t d : dims) {
      if (place[at(d)] >= 0) {
        result.push_back(place[at(d)]);
      }
    }
    return result;
  }
};

Dropping without_units(const Shape& shape) {
  std::vector<bool> dropped;
  for (const std::int64_t size : shape.dims()) dropped.push_back(size == 1);
  return Dropping(shape, dropped);
}

Instruction* reshaped(Rewriter& rewriter, Instruction* value, const Shape& shape) {
  if (value->shape() == shape) return value;
  return rewriter.add(Opcode::reshape, shape, {value});
}

// Each rule computes the same elements in the same order between two reshapes, which move nothing.
// Between neighbours that were both rewritten two reshapes meet, which simplification makes one or
// none of: a chain of operations keeps those at its ends.
Instruction* drop_elementwise(Rewriter& rewriter, Instruction& at) {
  const Dropping result = without_units(at.shape());
  if (!result.drops) return nullptr;
  std::vector<Instruction*> operands;
  for (Instruction* operand : at.operands()) {
    operands.push_back(reshaped(rewriter, operand, without_units(operand->shape()).shape));
  }
  Instruction* inner =
      rewriter.add(at.opcode(), result.shape, std::move(operands), at.attributes());
  return reshaped(rewriter, inner, at.shape());
}

// The units of the operand and those of the result are dropped independently: a transpose carries a
// dim of size one along, so both lose it; a broadcast adds dims of any size, but a dim that its
// operand keeps has the same size in the result, and so a place there.
Instruction* drop_movement(Rewriter& rewriter, Instruction& at) {
  const Dropping result = without_units(at.shape());
  const Dropping operand = without_units(at.operand(0)->shape());
  if (!result.drops && !operand.drops) return nullptr;
  Attributes attributes;
  if (at.opcode() == Opcode::transpose) {
    attributes.dimensions = operand.map(at.attributes().dimensions);
  } else {
    for (std::size_t i = 0; i < operand.place.size(); ++i) {
      if (operand.place[i] < 0) continue;
      const auto to = static_cast<std::size_t>(at.attributes().dimensions[i]);
      attributes.dimensions.push_back(result.place[to]);
    }
  }
  Instruction* inner =
      rewriter.add(at.opcode(), result.shape, {reshaped(rewriter, at.operand(0), operand.shape)},
                   std::move(attributes));
  return reshaped(rewriter, inner, at.shape());
}

Instruction* drop_reduce(Rewriter& rewriter, Instruction& at) {
  if (at.operand_count() != 2 || !at.shape().is_array()) return nullptr;
  const Dropping operand = without_units(at.operand(0)->shape());
  if (!operand.drops) return nullptr;
  Attributes attributes = at.attributes();
  attributes.dimensions = operand.map(at.attributes().dimensions);
  if (attributes.dimensions.empty()) {
    const bool sum =
        ir::is_binary_computation(*at.to_apply(), Opcode::add) && is_splat_of(*at.operand(1), 0);
    const bool maximum = ir::is_binary_computation(*at.to_apply(), Opcode::maximum) &&
                         is_splat_of(*at.operand(1), -std::numeric_limits<double>::infinity());
    return sum || maximum ? reshaped(rewriter, at.operand(0), at.shape()) : nullptr;
  }
  Instruction* inner = rewriter.add(
      at.opcode(), without_units(at.shape()).shape,
      {reshaped(rewriter, at.operand(0), operand.shape), at.operand(1)}, std::move(attributes));
  inner->set_called_computations(at.called_computations());
  return reshaped(rewriter, inner, at.shape());
}

// Which dims of one side go: batch dims of size one, free and summed ones but for the last left. A
// side keeps one free dim even where all are of size one. Example: [1,7,1,5] with batch {0} and
// summed {3} becomes [7,5], with free dim 7; with [1,1,1,5] one of the two free dims stays, and it
// becomes [1,5].
Dropping side_of_dot(const Shape& shape, const Ints& batch, const Ints& contracting,
                     const Ints& kept_contracting) {
  std::vector<bool> dropped(static_cast<std::size_t>(shape.rank()), false);
  const auto contains = [](const Ints& list, std::int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  Ints free;
  for (std::int64_t d = 0; d < shape.rank(); ++d) {
    const bool unit = shape.dim(static_cast<int>(d)) == 1;
    if (contains(batch, d)) {
      dropped[static_cast<std::size_t>(d)] = unit;
    } else if (contains(contracting, d)) {
      dropped[static_cast<std::size_t>(d)] = unit && !contains(kept_contracting, d);
    } else {
      free.push_back(d);
    }
  }
  auto left = free.size();
  for (const std::int64_t d : free) {
    if (left > 1 && shape.dim(static_cast<int>(d)) == 1) {
      dropped[static_cast<std::size_t>(d)] = true;
      --left;
    }
  }
  return Dropping(shape, dropped);
}

Instruction* drop_dot(Rewriter& rewriter, Instruction& at) {
  const ir::DotDimensions& d = *at.attributes().dot;
  const Shape &left = at.operand(0)->shape(), &right = at.operand(1)->shape();
  // One pair of summed dims stays where all have size one.
  Ints kept_left, kept_right;
  const auto is_unit = [&](std::int64_t c) { return left.dim(static_cast<int>(c)) == 1; };
  if (!d.lhs_contracting.empty() &&
      std::all_of(d.lhs_contracting.begin(), d.lhs_contracting.end(), is_unit)) {
    kept_left = {d.lhs_contracting[0]};
    kept_right = {d.rhs_contracting[0]};
  }
  const Dropping a = side_of_dot(left, d.lhs_batch, d.lhs_contracting, kept_left);
  const Dropping b = side_of_dot(right, d.rhs_batch, d.rhs_contracting, kept_right);
  if (!a.drops && !b.drops) return nullptr;
  auto dims = std::make_shared<ir::DotDimensions>();
  dims->lhs_batch = a.map(d.lhs_batch);
  dims->rhs_batch = b.map(d.rhs_batch);
  dims->lhs_contracting = a.map(d.lhs_contracting);
  dims->rhs_contracting = b.map(d.rhs_contracting);
  ir::Dims result;
  for (const std::int64_t c : dims->lhs_batch) result.push_back(a.shape.dim(static_cast<int>(c)));
  const auto add_free = [&](const Shape& shape, const Ints& batch, const Ints& contracting) {
    for (std::int64_t c = 0; c < shape.rank(); ++c) {
      if (std::find(batch.begin(), batch.end(), c) == batch.end() &&
          std::find(contracting.begin(), contracting.end(), c) == contracting.end()) {
        result.push_back(shape.dim(static_cast<int>(c)));
      }
    }
  };
  add_free(a.shape, dims->lhs_batch, dims->lhs_contracting);
  add_free(b.shape, dims->rhs_batch, dims->rhs_contracting);
  Attributes attributes = at.attributes();
  attributes.dot = std::move(dims);
  Instruction* inner = rewriter.add(
      Opcode::dot, Shape(at.shape().dtype(), result),
      {reshaped(rewriter, at.operand(0), a.shape), reshaped(rewriter, at.operand(1), b.shape)},
      std::move(attributes));
  return reshaped(rewriter, inner, at.shape());
}

Instruction* drop_one(Rewriter& rewriter, Instruction& at) {
  switch (at.opcode()) {
    case Opcode::broadcast:
    case Opcode::transpose:
      return drop_movement(rewriter, at);
    case Opcode::reduce:
      return drop_reduce(rewriter, at);
    case Opcode::dot:
      return drop_dot(rewriter, at);
    default:
      return ir::is_elementwise(at.opcode()) && at.shape().is_array()
                 ? drop_elementwise(rewriter, at)
                 : nullptr;
  }
}

}  // namespace

Result<bool> drop_unit_dims(ir::Module& module) {
  bool changed = false;
  for (ir::Computation* computation : programs_of(module)) {
    Rewriter rewriter(*computation);
    PLIMSOLL_ASSIGN_OR_RETURN(const bool swept, rewriter.sweep(drop_one));
    changed = changed || swept;
  }
  return changed;
}

}  // namespace plimsoll::passes
