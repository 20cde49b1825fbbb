// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ir/shapes/builder.h"
#include "runtime/passes/expand/expansions.h"

namespace plimsoll::passes {
namespace {

using ir::Attributes;
using ir::Computation;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;
using Numbers = std::vector<std::int64_t>;

// The scale of each element: one number for all, or an array whose dims divide those of `shape`.
Expansion spread(Instruction& dot, Instruction* scale, const Shape& shape) {
  Computation& to = *dot.parent();
  const Shape given = scale->shape();
  const Shape all(DType::f32, shape.dims());
  Instruction* const wide = to.add(Opcode::convert, Shape(DType::f32, given.dims()), {scale});
  if (given.element_count() == 1) {
    return to.add(Opcode::broadcast, all, {to.add(Opcode::reshape, Shape(DType::f32, {}), {wide})});
  }
  bool fits = given.rank() == shape.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) {
    fits = given.dim(i) > 0 && shape.dim(i) % given.dim(i) == 0;
  }
  if (!fits) {
    return invalid_argument("'" + dot.name() + "': the scales " + given.to_string() +
                            " don't divide " + shape.to_string());
  }
  Numbers blocks, where;
  for (int i = 0; i < shape.rank(); ++i) {
    where.push_back(static_cast<std::int64_t>(blocks.size()));
    blocks.push_back(given.dim(i));
    if (given.dim(i) != shape.dim(i)) blocks.push_back(shape.dim(i) / given.dim(i));
  }
  Attributes into;
  into.dimensions = std::move(where);
  Instruction* const spread =
      to.add(Opcode::broadcast, Shape(DType::f32, ir::Dims(blocks)), {wide}, {}, std::move(into));
  return to.add(Opcode::reshape, all, {spread});
}

// A side of the product in f32, times its scales if it has any.
Expansion side(Instruction& dot, Instruction* value, Instruction* scale) {
  Computation& to = *dot.parent();
  const Shape shape(DType::f32, value->shape().dims());
  Instruction* const wide = to.add(Opcode::convert, shape, {value});
  if (scale == nullptr) return wide;
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const all, spread(dot, scale, shape));
  return to.add(Opcode::multiply, shape, {wide, all});
}

// Of the operands two are the sides; `scales` are those of each, or null. What comes of them is
// multiplied by `factor`, if there is one.
Expansion product_of(Instruction& dot, Instruction* const (&scales)[2],
                     const ir::DotDimensions& dimensions, Instruction* factor) {
  Computation& to = *dot.parent();
  std::vector<Instruction*> sides;
  for (int i = 0; i < 2; ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const made, side(dot, dot.operand(i), scales[i]));
    sides.push_back(made);
  }
  Attributes attributes;
  attributes.dot = std::make_shared<ir::DotDimensions>(dimensions);
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction * product,
                            ir::build(to, Opcode::dot, std::move(sides), std::move(attributes)));
  if (!dot.shape().is_array() || !(product->shape().dims() == dot.shape().dims())) {
    return invalid_argument("'" + dot.name() + "': the scaled product is " +
                            product->shape().to_string() + ", not " + dot.shape().to_string());
  }
  if (factor != nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const all, spread(dot, factor, product->shape()));
    product = to.add(Opcode::multiply, product->shape(), {product, all});
  }
  return to.add(Opcode::convert, dot.shape(), {product});
}

Status check_operands(const Instruction& dot) {
  for (const Instruction* operand : dot.operands()) {
    if (!operand->shape().is_array() || ir::is_complex(operand->shape().dtype())) {
      return invalid_argument("'" + dot.name() +
                              "': a scaled product takes arrays of real numbers");
    }
  }
  return ok_status();
}

}  // namespace

Expansion expand_scaled_dot(Instruction& dot) {
  PLIMSOLL_RETURN_IF_ERROR(check_operands(dot));
  if (dot.attributes().dot == nullptr) {
    return invalid_argument("'" + dot.name() + "': scaled-dot has dimension numbers");
  }
  return product_of(dot, {dot.operand(2), dot.operand(3)}, *dot.attributes().dot, nullptr);
}

Expansion expand_block_scaled_call(Instruction& call) {
  PLIMSOLL_RETURN_IF_ERROR(check_operands(call));
  const int count = call.operand_count();
  const int rank = count > 0 ? call.operand(0)->shape().rank() : 0;
  const bool fits = count >= 3 && count <= 5 && (rank == 2 || rank == 3) &&
                    call.operand(1)->shape().rank() == rank &&
                    (count < 5 || call.operand(4)->shape().element_count() == 1);
  if (!fits) {
    return invalid_argument("'" + call.name() + "': the custom call '" +
                            call.attributes().custom_call_target +
                            "' takes two matrices (or batches of them), their scales, and a scale "
                            "of all");
  }
  ir::DotDimensions dimensions;
  dimensions.lhs_contracting = dimensions.rhs_contracting = {rank - 1};
  if (rank == 3) dimensions.lhs_batch = dimensions.rhs_batch = {0};
  return product_of(call, {call.operand(2), count > 3 ? call.operand(3) : nullptr}, dimensions,
                    count > 4 ? call.operand(4) : nullptr);
}

}  // namespace plimsoll::passes
