// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

Expansion expand_scaled_dot(Instruction& dot) {
  Computation& to = *dot.parent();
  for (const Instruction* operand : dot.operands()) {
    if (!operand->shape().is_array() || ir::is_complex(operand->shape().dtype())) {
      return invalid_argument("'" + dot.name() + "': scaled-dot takes arrays of real numbers");
    }
  }
  if (dot.attributes().dot == nullptr || !dot.shape().is_array()) {
    return invalid_argument("'" + dot.name() + "': scaled-dot has dimension numbers");
  }
  std::vector<Instruction*> sides;
  for (int i = 0; i < 2; ++i) {
    const Shape shape(DType::f32, dot.operand(i)->shape().dims());
    PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const scale, spread(dot, dot.operand(2 + i), shape));
    Instruction* const wide = to.add(Opcode::convert, shape, {dot.operand(i)});
    sides.push_back(to.add(Opcode::multiply, shape, {wide, scale}));
  }
  Attributes attributes;
  attributes.dot = dot.attributes().dot;
  PLIMSOLL_ASSIGN_OR_RETURN(Instruction* const product,
                            ir::build(to, Opcode::dot, std::move(sides), std::move(attributes)));
  if (!(product->shape().dims() == dot.shape().dims())) {
    return invalid_argument("'" + dot.name() + "': scaled-dot gives " +
                            product->shape().to_string() + ", not " + dot.shape().to_string());
  }
  return to.add(Opcode::convert, dot.shape(), {product});
}

}  // namespace plimsoll::passes
