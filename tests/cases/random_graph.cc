// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace plimsoll::cases {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

Instruction* Graph::op(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes,
                       std::vector<ir::Computation*> called, const Shape* given) {
  auto built = ir::build(computation_, opcode, std::move(operands), std::move(attributes),
                         std::move(called), given);
  if (!built.ok()) throw std::logic_error("random module: " + built.status().to_string());
  return *built;
}

Instruction* Graph::given(Opcode opcode, const Shape& shape, std::vector<Instruction*> operands,
                          Attributes attributes, std::vector<ir::Computation*> called) {
  return op(opcode, std::move(operands), std::move(attributes), std::move(called), &shape);
}

Instruction* Graph::spread(Instruction* scalar, const Dims& dims) {
  if (dims.empty()) return scalar;
  return given(Opcode::broadcast, Shape(scalar->shape().dtype(), dims), {scalar});
}

Value Graph::constant(double value, const Dims& dims) {
  return {spread(scalar(static_cast<float>(value)), dims), std::fabs(value), true};
}

Value Graph::unary(Opcode opcode, Value x, double bound) {
  return {op(opcode, {x.at}), bound, x.exact};
}

Value Graph::binary(Opcode opcode, Value x, Value y, double bound) {
  return {op(opcode, {x.at, y.at}), bound, x.exact && y.exact};
}

Value Graph::scaled(Value x, double factor) {
  return binary(Opcode::multiply, x, constant(factor, x.dims()), x.bound * std::fabs(factor));
}

Value Graph::tamed(Value x) { return x.bound <= 2 ? x : unary(Opcode::tanh, x, 1); }

Value Graph::reshaped(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  return {given(Opcode::reshape, Shape(DType::f32, dims), {x.at}), x.bound, x.exact};
}

Value Graph::broadcast(Value x, const Dims& dims, std::vector<std::int64_t> dimensions) {
  Attributes attributes;
  attributes.dimensions = std::move(dimensions);
  return {given(Opcode::broadcast, Shape(DType::f32, dims), {x.at}, std::move(attributes)), x.bound,
          x.exact};
}

Value Graph::transposed(Value x, std::vector<std::int64_t> permutation) {
  Attributes attributes;
  attributes.dimensions = std::move(permutation);
  return {op(Opcode::transpose, {x.at}, std::move(attributes)), x.bound, x.exact};
}

Value Graph::sliced(Value x, std::vector<std::int64_t> starts, std::vector<std::int64_t> limits,
                    std::vector<std::int64_t> strides) {
  Attributes attributes;
  attributes.slice_starts = std::move(starts);
  attributes.slice_limits = std::move(limits);
  attributes.slice_strides = std::move(strides);
  return {op(Opcode::slice, {x.at}, std::move(attributes)), x.bound, x.exact};
}

Value Graph::fitted(Value x, const Dims& dims) {
  const std::int64_t wanted = Shape(DType::f32, dims).element_count();
  const std::int64_t had = x.at->shape().element_count();
  if (x.dims() == dims) return x;
  if (had == wanted) return reshaped(x, dims);
  if (had == 1) return broadcast(reshaped(x, {}), dims, {});
  if (x.dims().size() == 1) {
    for (int d = dims.size() - 1; d >= 0; --d) {
      if (dims[d] == had) return broadcast(x, dims, {d});
    }
  }
  Value flat = reshaped(x, {had});
  if (had > wanted) {
    const std::int64_t stride = had / wanted;
    flat = sliced(flat, {0}, {(wanted - 1) * stride + 1}, {stride});
  } else {
    Attributes attributes;
    const std::int64_t interior = had > 1 ? (wanted - had) / (had - 1) : 0;
    attributes.padding = {{0, wanted - had - interior * (had - 1), interior}};
    flat.at = op(Opcode::pad, {flat.at, scalar(0.25f)}, std::move(attributes));
    flat.bound = std::max(flat.bound, 0.25);
  }
  return reshaped(flat, dims);
}

Value Graph::reduced(Opcode opcode, Value x, std::vector<std::int64_t> dimensions) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::int64_t count = 1;
  for (std::int64_t d : dimensions) count *= x.dims()[static_cast<int>(d)];
  Attributes attributes;
  attributes.dimensions = std::move(dimensions);
  const bool adds = opcode == Opcode::add;
  Instruction* initial = scalar(adds ? 0.0f : opcode == Opcode::maximum ? -kInfinity : kInfinity);
  Instruction* result = op(Opcode::reduce, {x.at, initial}, std::move(attributes),
                           {ir::scalar_computation(module(), opcode, DType::f32)});
  return {result, adds ? x.bound * static_cast<double>(count) : x.bound, x.exact && !adds};
}

Value Graph::mean(Value x, std::vector<std::int64_t> dimensions) {
  Value sum = reduced(Opcode::add, x, std::move(dimensions));
  return scaled(sum, x.bound / std::max(sum.bound, 1e-30));
}

Value Graph::dot(Value x, Value y) {
  auto dimensions = std::make_shared<ir::DotDimensions>();
  dimensions->lhs_contracting = {1};
  dimensions->rhs_contracting = {0};
  Attributes attributes;
  attributes.dot = std::move(dimensions);
  const auto inner = static_cast<double>(x.dims()[1]);
  const Value product{op(Opcode::dot, {x.at, y.at}, std::move(attributes)),
                      x.bound * y.bound * inner, false};
  return scaled(product, 1 / (2 * std::sqrt(inner)));
}

Instruction* Graph::compare(Instruction* x, Instruction* y, ir::ComparisonDirection direction) {
  Attributes attributes;
  attributes.comparison_direction = direction;
  return op(Opcode::compare, {x, y}, std::move(attributes));
}

Instruction* Graph::convert(Instruction* x, DType dtype) {
  return given(Opcode::convert, Shape(dtype, x->shape().dims()), {x});
}

}  // namespace plimsoll::cases
