// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "tests/cases/random_steps.h"

namespace plimsoll::cases {
namespace {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

void unary(Builder& b) {
  const Value x = b.any();
  switch (b.random.below(12)) {
    case 0:
      return b.push(b.graph.unary(Opcode::tanh, x, 1));
    case 1:
      return b.push(b.graph.unary(Opcode::logistic, x, 1));
    case 2:
      return b.push(b.graph.unary(Opcode::sine, x, 1));
    case 3:
      return b.push(b.graph.unary(Opcode::cosine, x, 1));
    case 4:
      return b.push(b.graph.unary(Opcode::erf, x, 1));
    case 5: {
      const Value down =
          b.graph.unary(Opcode::negate, b.graph.unary(Opcode::abs, x, x.bound), x.bound);
      return b.push(b.graph.unary(Opcode::exponential, down, 1));
    }
    case 6: {
      const Value size = b.graph.unary(Opcode::abs, x, x.bound);
      return b.push(b.graph.unary(Opcode::log_plus_one, size, std::log1p(x.bound)));
    }
    case 7: {
      const Value square = b.graph.binary(Opcode::multiply, x, x, x.bound * x.bound);
      const Value above =
          b.graph.binary(Opcode::add, square, b.graph.constant(1, x.dims()), square.bound + 1);
      const Opcode root = b.random.chance(0.5) ? Opcode::sqrt : Opcode::rsqrt;
      return b.push(b.graph.unary(root, above, root == Opcode::sqrt ? std::sqrt(above.bound) : 1));
    }
    case 8:
      return b.push(b.graph.unary(Opcode::negate, x, x.bound));
    case 9:
      return b.push(b.graph.unary(Opcode::abs, x, x.bound));
    case 10:
      if (x.exact) return b.push(b.graph.unary(Opcode::floor, x, x.bound + 1));
      return b.push(b.graph.scaled(x, 0.5));
    default:
      return b.push(b.graph.scaled(x, 0.1 + b.random.unit()));
  }
}

void binary(Builder& b) {
  const Value x = b.any();
  const Value y = b.graph.fitted(b.any(), x.dims());
  switch (b.random.below(7)) {
    case 0:
      return b.push(b.graph.binary(Opcode::add, x, y, x.bound + y.bound));
    case 1:
      return b.push(b.graph.binary(Opcode::subtract, x, y, x.bound + y.bound));
    case 2:
      return b.push(b.graph.binary(Opcode::multiply, x, y, x.bound * y.bound));
    case 3: {
      const Value size = b.graph.unary(Opcode::abs, y, y.bound);
      const Value above =
          b.graph.binary(Opcode::add, size, b.graph.constant(1, x.dims()), y.bound + 1);
      return b.push(b.graph.binary(Opcode::divide, x, above, x.bound));
    }
    case 4:
      return b.push(b.graph.binary(Opcode::maximum, x, y, std::max(x.bound, y.bound)));
    case 5:
      return b.push(b.graph.binary(Opcode::minimum, x, y, std::max(x.bound, y.bound)));
    default: {
      const Value both = b.graph.binary(Opcode::add, x, y, x.bound + y.bound);
      return b.push(b.graph.scaled(both, 0.5));
    }
  }
}

void selected(Builder& b) {
  const Value x = b.any();
  const Value y = b.graph.fitted(b.any(), x.dims());
  const Value key = b.graph.fitted(b.any_exact(), x.dims());
  const auto direction =
      b.random.chance(0.5) ? ir::ComparisonDirection::gt : ir::ComparisonDirection::le;
  Instruction* mask = b.graph.compare(key.at, b.graph.constant(0.1, x.dims()).at, direction);
  b.push({b.graph.op(Opcode::select, {mask, x.at, y.at}), std::max(x.bound, y.bound),
          x.exact && y.exact});
}

void clamped(Builder& b) {
  const Value x = b.any();
  b.push({b.graph.op(Opcode::clamp, {b.graph.scalar(-0.75f), x.at, b.graph.scalar(1.25f)}), 1.25,
          x.exact});
}

void moved(Builder& b) {
  const Value x = b.any_matrix();
  const std::int64_t rows = x.dims()[0], columns = x.dims()[1];
  switch (b.random.below(5)) {
    case 0:
      return b.push(b.graph.transposed(x, {1, 0}));
    case 1: {
      const std::int64_t start = b.random.between(0, rows / 2);
      return b.push(b.graph.sliced(x, {start, 0}, {rows, columns}, {1, b.random.between(1, 2)}));
    }
    case 2: {
      Attributes attributes;
      attributes.padding = {{b.random.between(0, 2), b.random.between(-1, 2), 0},
                            {b.random.between(-1, 1), 1, b.random.between(0, 1)}};
      return b.push({b.graph.op(Opcode::pad, {x.at, b.graph.scalar(0.5f)}, std::move(attributes)),
                     std::max(x.bound, 0.5), x.exact});
    }
    case 3: {
      Attributes attributes;
      attributes.dimensions = {b.random.between(0, 1)};
      return b.push({b.graph.op(Opcode::reverse, {x.at}, std::move(attributes)), x.bound, x.exact});
    }
    default: {
      const Value y = b.graph.fitted(b.any(), {std::max<std::int64_t>(rows / 2, 1), columns});
      Attributes attributes;
      attributes.dimensions = {0};
      return b.push({b.graph.op(Opcode::concatenate, {x.at, y.at}, std::move(attributes)),
                     std::max(x.bound, y.bound), x.exact && y.exact});
    }
  }
}

void reduced(Builder& b) {
  const Value x = b.any_matrix();
  const std::vector<std::int64_t> dimensions = {b.random.between(0, 1)};
  if (b.random.chance(0.6)) return b.push(b.graph.mean(x, dimensions));
  b.push(b.graph.reduced(b.random.chance(0.5) ? Opcode::maximum : Opcode::minimum, x, dimensions));
}

void softmax(Builder& b) {
  const Value x = b.any_matrix();
  const Value top = b.graph.broadcast(b.graph.reduced(Opcode::maximum, x, {1}), x.dims(), {0});
  const Value below = b.graph.binary(Opcode::subtract, x, top, 2 * x.bound);
  const Value powers = b.graph.unary(Opcode::exponential, below, 1);
  const Value sums = b.graph.broadcast(b.graph.reduced(Opcode::add, powers, {1}), x.dims(), {0});
  b.push(b.graph.binary(Opcode::divide, powers, sums, 1));
}

void normalized(Builder& b) {
  const Value x = b.any_matrix();
  const Value center = b.graph.broadcast(b.graph.mean(x, {1}), x.dims(), {0});
  const Value off = b.graph.binary(Opcode::subtract, x, center, 2 * x.bound);
  const Value square = b.graph.binary(Opcode::multiply, off, off, off.bound * off.bound);
  const Value variance = b.graph.mean(square, {1});
  const Value above = b.graph.binary(Opcode::add, variance, b.graph.constant(0.1, variance.dims()),
                                     variance.bound + 0.1);
  const Value inverse = b.graph.broadcast(b.graph.unary(Opcode::rsqrt, above, 3.2), x.dims(), {0});
  b.push(b.graph.binary(Opcode::multiply, off, inverse, 3.2 * off.bound));
}

void product(Builder& b) {
  const Value x = b.any_matrix();
  const std::int64_t inner = x.dims()[1];
  if (inner < 1) return;
  const Value y = b.random.chance(0.5) ? b.parameter({inner, b.random.between(4, 48)})
                                       : b.graph.fitted(b.any(), {inner, b.random.between(4, 48)});
  b.push(b.graph.dot(x, y));
}

// Elements from -1 to 1 in steps of an eighth, as many bytes as the largest value has at most.
Value weights(Builder& b, std::int64_t rows) {
  const std::int64_t most = std::max<std::int64_t>(b.options.largest_bytes / (4 * rows), 1);
  const ir::Dims dims{rows, b.random.between(std::max<std::int64_t>(most / 4, 1), most)};
  ir::Literal literal(Shape(DType::f32, dims));
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    literal.set(i, static_cast<double>(b.random.between(-8, 8)) / 8);
  }
  return {b.graph.computation().add_constant(std::move(literal)), 1, true};
}

void convolved(Builder& b) {
  const std::int64_t side = b.random.between(4, 8), features = b.random.between(1, 4);
  const Value x = b.graph.fitted(b.any(), {2, side, side, features});
  const std::int64_t outputs = b.random.between(2, 6), taps = b.random.between(1, 3);
  const Value kernel = b.parameter({taps, taps, features, outputs});
  auto d = std::make_shared<ir::ConvolutionDimensions>();
  d->input_feature = d->output_feature = 3;
  d->input_spatial = d->output_spatial = {1, 2};
  d->kernel_input_feature = 2;
  d->kernel_output_feature = 3;
  d->kernel_spatial = {0, 1};
  Attributes attributes;
  attributes.convolution = std::move(d);
  ir::WindowDimension w;
  w.size = taps;
  w.stride = b.random.between(1, 2);
  w.padding_low = w.padding_high = taps / 2;
  attributes.window = {w, w};
  const auto terms = static_cast<double>(taps * taps * features);
  const Value sum{b.graph.op(Opcode::convolution, {x.at, kernel.at}, std::move(attributes)),
                  x.bound * kernel.bound * terms, false};
  b.push(b.graph.scaled(sum, 1 / (2 * std::sqrt(terms))));
}

void pooled(Builder& b) {
  const std::int64_t side = 2 * b.random.between(2, 6);
  const Value x = b.graph.fitted(b.any(), {2, side, side, 3});
  const bool average = b.random.chance(0.5);
  ir::WindowDimension one, two;
  two.size = two.stride = 2;
  Attributes attributes;
  attributes.window = {one, two, two, one};
  const Opcode opcode = average ? Opcode::add : Opcode::maximum;
  Instruction* initial = b.graph.scalar(average ? 0.0f : -std::numeric_limits<float>::infinity());
  const Value result{b.graph.op(Opcode::reduce_window, {x.at, initial}, std::move(attributes),
                                {ir::scalar_computation(b.graph.module(), opcode, DType::f32)}),
                     average ? 4 * x.bound : x.bound, x.exact && !average};
  b.push(average ? b.graph.scaled(result, 0.25) : result);
}

// Row numbers in [0, rows) from the bits of an integer pattern.
Instruction* row_numbers(Builder& b, std::int64_t count, std::int64_t rows) {
  Attributes attributes;
  attributes.dimensions = {0};
  const Dims dims{count};
  Instruction* index = b.graph.given(Opcode::iota, Shape(DType::s32, dims), {}, attributes);
  Instruction* factor =
      b.graph.spread(b.graph.scalar(static_cast<std::int32_t>(b.random.between(3, 97))), dims);
  Instruction* modulus = b.graph.spread(b.graph.scalar(static_cast<std::int32_t>(rows)), dims);
  Instruction* spread = b.graph.op(Opcode::multiply, {index, factor});
  return b.graph.op(Opcode::remainder, {spread, modulus});
}

void gathered(Builder& b) {
  const Value x = b.any_matrix();
  const std::int64_t count = b.random.between(1, 2 * x.dims()[0]);
  Instruction* rows = row_numbers(b, count, x.dims()[0]);
  auto d = std::make_shared<ir::GatherDimensions>();
  d->offset_dims = {1};
  d->collapsed_slice_dims = {0};
  d->start_index_map = {0};
  d->index_vector_dim = 1;
  Attributes attributes;
  attributes.gather = std::move(d);
  attributes.slice_sizes = {1, x.dims()[1]};
  b.push({b.graph.op(Opcode::gather, {x.at, rows}, std::move(attributes)), x.bound, x.exact});
}

// Rows gathered, changed, put beside others, padded and written into an array, with nothing between
// that keeps them from being one kernel.
void assembled(Builder& b) {
  const Value x = b.any_matrix();
  const std::int64_t columns = x.dims()[1];
  const std::int64_t count = b.random.between(1, x.dims()[0]);
  auto d = std::make_shared<ir::GatherDimensions>();
  d->offset_dims = {1};
  d->collapsed_slice_dims = {0};
  d->start_index_map = {0};
  d->index_vector_dim = 1;
  Attributes rows;
  rows.gather = std::move(d);
  rows.slice_sizes = {1, columns};
  // Some of them past the end.
  Instruction* places = row_numbers(b, count, x.dims()[0] + 1);
  Value part{b.graph.op(Opcode::gather, {x.at, places}, std::move(rows)), x.bound, x.exact};
  part = b.graph.scaled(part, 0.5);
  if (b.random.chance(0.5)) {
    const Value y = b.graph.fitted(b.any(), {count, columns});
    const Value beside = b.graph.unary(Opcode::negate, y, y.bound);
    Attributes axis;
    axis.dimensions = {0};
    part = {b.graph.op(Opcode::concatenate, {part.at, beside.at}, std::move(axis)),
            std::max(part.bound, beside.bound), part.exact && beside.exact};
  }
  if (b.random.chance(0.5)) {
    Attributes border;
    border.padding = {{b.random.between(0, 2), b.random.between(0, 2), 0},
                      {0, 0, b.random.between(0, 1)}};
    part = {b.graph.op(Opcode::pad, {part.at, b.graph.scalar(0.25f)}, std::move(border)),
            std::max(part.bound, 0.25), part.exact};
  }
  const Value whole = b.graph.unary(Opcode::tanh, part, 1);
  if (b.random.chance(0.5)) return b.push(whole);
  Instruction* zero = b.graph.scalar(std::int32_t{0});
  const Value room = b.graph.fitted(b.any(), {whole.dims()[0] + 2, whole.dims()[1]});
  b.push({b.graph.op(Opcode::dynamic_update_slice,
                     {room.at, whole.at, b.graph.scalar(std::int32_t{1}), zero}),
          std::max(room.bound, 1.0), false});
}

void scattered(Builder& b) {
  const Value x = b.any_matrix();
  const std::int64_t count = b.random.between(1, x.dims()[0]);
  Instruction* rows = row_numbers(b, count, x.dims()[0]);
  const Value update = b.graph.fitted(b.any(), {count, x.dims()[1]});
  auto d = std::make_shared<ir::ScatterDimensions>();
  d->update_window_dims = {1};
  d->inserted_window_dims = {0};
  d->scatter_dims_to_operand_dims = {0};
  d->index_vector_dim = 1;
  Attributes attributes;
  attributes.scatter = std::move(d);
  const Value sum{b.graph.op(Opcode::scatter, {x.at, rows, update.at}, std::move(attributes),
                             {ir::scalar_computation(b.graph.module(), Opcode::add, DType::f32)}),
                  x.bound + update.bound * static_cast<double>(count), false};
  b.push(sum);
}

void dynamically_sliced(Builder& b) {
  const Value x = b.any_matrix();
  // A data-dependent start: the parameter's value times the row count, floored, often out of range.
  const Value key = b.graph.reshaped(b.graph.fitted(b.any_exact(), {1}), {});
  Instruction* start =
      b.graph.convert(b.graph.scaled(key, static_cast<double>(x.dims()[0])).at, DType::s32);
  Instruction* zero = b.graph.scalar(std::int32_t{0});
  const std::int64_t rows = b.random.between(1, x.dims()[0]);
  Attributes attributes;
  attributes.slice_sizes = {rows, x.dims()[1]};
  const Value part{b.graph.op(Opcode::dynamic_slice, {x.at, start, zero}, std::move(attributes)),
                   x.bound, x.exact};
  if (b.random.chance(0.4)) return b.push(part);
  const Value update = b.graph.unary(Opcode::tanh, part, 1);
  b.push(
      {b.graph.op(Opcode::dynamic_update_slice, {x.at, update.at, zero, zero}), x.bound, x.exact});
}

void sorted(Builder& b) {
  const Value x = b.any_matrix();
  ir::Computation* order = b.graph.module().add_computation("order");
  const Shape scalar(DType::f32, {});
  Instruction* left = order->add_parameter(0, scalar);
  Instruction* right = order->add_parameter(1, scalar);
  Graph inner(*order);
  inner.compare(left, right, ir::ComparisonDirection::lt);
  Attributes attributes;
  attributes.dimensions = {b.random.between(0, 1)};
  attributes.is_stable = true;
  b.push({b.graph.op(Opcode::sort, {x.at}, std::move(attributes), {order}), x.bound, x.exact});
}

void barrier(Builder& b) {
  const Value x = b.any(), y = b.any();
  Instruction* pair = b.graph.computation().add_tuple({x.at, y.at});
  Instruction* held = b.graph.op(Opcode::opt_barrier, {pair});
  b.push({b.graph.computation().add_get_tuple_element(held, 0), x.bound, x.exact});
  b.push({b.graph.computation().add_get_tuple_element(held, 1), y.bound, y.exact});
}

}  // namespace

void constant_weights(Builder& b) {
  const Value x = b.any_matrix();
  if (x.dims()[1] < 1) return;
  const Value made = weights(b, x.dims()[1]);
  b.push(b.graph.dot(x, made));
  if (b.random.chance(0.4)) b.push(made);
}

std::vector<Step> plain_steps() {
  // Repeats are weights.
  return {unary,     unary,
          unary,     unary,
          binary,    binary,
          binary,    binary,
          selected,  clamped,
          moved,     moved,
          reduced,   reduced,
          softmax,   normalized,
          product,   product,
          product,   convolved,
          pooled,    gathered,
          scattered, sorted,
          barrier,   dynamically_sliced,
          assembled, assembled};
}

}  // namespace plimsoll::cases
