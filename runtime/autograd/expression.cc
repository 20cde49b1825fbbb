// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/expression.h"

#include <limits>

namespace plimsoll::autograd {

using ir::Opcode;
using trace::OpAttributes;

double identity(Opcode combiner) {
  switch (combiner) {
    case Opcode::multiply:
    case Opcode::and_:
      return 1;
    case Opcode::maximum:
      return -std::numeric_limits<double>::infinity();
    case Opcode::minimum:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

NodeRef Expression::take(Result<NodeRef> result) {
  if (!result.ok()) return fail(result.status());
  return std::move(result).value();
}

NodeRef Expression::op(Opcode opcode, std::span<const NodeRef> operands,
                       const OpAttributes& attributes, const ir::Shape* given) {
  if (!ok()) return {};
  std::vector<Node*> nodes;
  for (const NodeRef& operand : operands) {
    if (!operand) {
      return fail(internal_error("gradient: an operand of " + std::string(ir::to_string(opcode)) +
                                 " is missing"));
    }
    nodes.push_back(operand.get());
  }
  return take(recorder_.record(opcode, nodes, &attributes, given));
}

NodeRef Expression::op(Opcode opcode, std::initializer_list<NodeRef> operands,
                       const OpAttributes& attributes, const ir::Shape* given) {
  return op(opcode, std::span<const NodeRef>(operands.begin(), operands.size()), attributes, given);
}

NodeRef Expression::compare(ir::ComparisonDirection direction, const NodeRef& a, const NodeRef& b) {
  OpAttributes op_attributes;
  op_attributes.attributes.comparison_direction = direction;
  return op(Opcode::compare, {a, b}, op_attributes);
}

NodeRef Expression::scalar(ir::DType dtype, double value) {
  return recorder_.scalar(dtype, value, true);
}

NodeRef Expression::fill(const Node& like, double value) {
  return broadcast(scalar(like.dtype, value), like.dims(), {});
}

NodeRef Expression::broadcast(const NodeRef& x, std::span<const std::int64_t> dims,
                              Ints dimensions) {
  if (!x) return {};
  if (dims.empty()) return x;
  const ir::Shape shape(x->dtype, ir::Dims(dims));
  OpAttributes op_attributes;
  op_attributes.attributes.dimensions = std::move(dimensions);
  return op(Opcode::broadcast, {x}, op_attributes, &shape);
}

NodeRef Expression::reshape(const NodeRef& x, std::span<const std::int64_t> dims) {
  if (!x) return {};
  const ir::Shape shape(x->dtype, ir::Dims(dims));
  if (shape == x->shape()) return x;
  return op(Opcode::reshape, {x}, {}, &shape);
}

NodeRef Expression::transpose(const NodeRef& x, Ints permutation) {
  bool identity_permutation = true;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) identity_permutation = false;
  }
  if (identity_permutation) return x;
  OpAttributes op_attributes;
  op_attributes.attributes.dimensions = std::move(permutation);
  return op(Opcode::transpose, {x}, op_attributes);
}

NodeRef Expression::convert(const NodeRef& x, ir::DType dtype) {
  if (!x || x->dtype == dtype) return x;
  const ir::Shape shape(dtype, ir::Dims(x->dims()));
  return op(Opcode::convert, {x}, {}, &shape);
}

NodeRef Expression::slice(const NodeRef& x, Ints starts, Ints limits, Ints strides) {
  OpAttributes op_attributes;
  op_attributes.attributes.slice_starts = std::move(starts);
  op_attributes.attributes.slice_limits = std::move(limits);
  op_attributes.attributes.slice_strides = std::move(strides);
  return op(Opcode::slice, {x}, op_attributes);
}

NodeRef Expression::pad(const NodeRef& x, std::vector<ir::PaddingDimension> padding) {
  if (!x) return {};
  OpAttributes op_attributes;
  op_attributes.attributes.padding = std::move(padding);
  return op(Opcode::pad, {x, scalar(x->dtype, 0)}, op_attributes);
}

NodeRef Expression::reverse(const NodeRef& x, Ints dimensions) {
  if (dimensions.empty()) return x;
  OpAttributes op_attributes;
  op_attributes.attributes.dimensions = std::move(dimensions);
  return op(Opcode::reverse, {x}, op_attributes);
}

NodeRef Expression::concatenate(std::span<const NodeRef> parts, std::int64_t dimension) {
  OpAttributes op_attributes;
  op_attributes.attributes.dimensions = {dimension};
  return op(Opcode::concatenate, parts, op_attributes);
}

NodeRef Expression::iota(ir::DType dtype, std::span<const std::int64_t> dims,
                         std::int64_t dimension) {
  const ir::Shape shape(dtype, ir::Dims(dims));
  OpAttributes op_attributes;
  op_attributes.attributes.dimensions = {dimension};
  return op(Opcode::iota, std::span<const NodeRef>(), op_attributes, &shape);
}

NodeRef Expression::reduce(const NodeRef& x, Opcode combiner, Ints dimensions) {
  if (!x) return {};
  if (dimensions.empty()) return x;
  OpAttributes op_attributes;
  op_attributes.attributes.dimensions = std::move(dimensions);
  op_attributes.callee = {trace::Callee::Kind::combine, combiner, {}};
  return op(Opcode::reduce, {x, scalar(x->dtype, identity(combiner))}, op_attributes);
}

NodeRef Expression::element(const NodeRef& tuple, int index) {
  if (!ok() || !tuple) return {};
  return take(recorder_.element(tuple.get(), index));
}

}  // namespace plimsoll::autograd
