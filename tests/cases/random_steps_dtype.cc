// SPDX-License-Identifier: Apache-2.0
#include "tests/cases/random_steps.h"

namespace plimsoll::cases {
namespace {

using ir::Attributes;
using ir::Dims;
using ir::DType;
using ir::Instruction;
using ir::Opcode;
using ir::Shape;

// A few operations in another float dtype. The 16-bit ones only for exact values: a last bit there
// is a large difference.
void through_float(Builder& b) {
  const DType dtypes[] = {DType::bf16, DType::f16, DType::f64};
  const DType dtype = dtypes[b.random.below(3)];
  const Value x = dtype == DType::f64 ? b.any() : b.any_exact();
  Instruction* narrow = b.graph.convert(x.at, dtype);
  Instruction* bent = b.graph.op(Opcode::tanh, {narrow});
  Instruction* sum =
      b.graph.op(b.random.chance(0.5) ? Opcode::add : Opcode::multiply, {narrow, bent});
  b.push({b.graph.convert(sum, DType::f32), x.bound + 1, x.exact});
}

// Integer arithmetic on the rounded values, brought back to [-1, 1].
void through_integer(Builder& b) {
  const DType dtypes[] = {DType::s32, DType::s8, DType::u16, DType::s64, DType::u32};
  const DType dtype = dtypes[b.random.below(5)];
  const Value x = b.any_exact();
  const Dims dims = x.dims();
  Instruction* whole = b.graph.convert(b.graph.scaled(x, 37).at, dtype);
  const auto constant = [&](std::int32_t value) {
    return b.graph.convert(b.graph.spread(b.graph.scalar(value), dims), dtype);
  };
  Instruction* mixed = b.graph.op(Opcode::multiply, {whole, constant(5)});
  const Opcode opcodes[] = {Opcode::xor_, Opcode::add, Opcode::and_, Opcode::or_, Opcode::maximum};
  mixed = b.graph.op(opcodes[b.random.below(5)], {mixed, constant(11)});
  if (b.random.chance(0.5)) {
    mixed = b.graph.op(Opcode::shift_right_logical, {mixed, constant(1)});
  }
  mixed = b.graph.op(Opcode::and_, {mixed, constant(63)});
  const Value back{b.graph.convert(mixed, DType::f32), 64, true};
  b.push(b.graph.scaled(back, 1.0 / 64));
}

void through_pred(Builder& b) {
  const Value x = b.any_exact();
  const Value y = b.graph.fitted(b.any_exact(), x.dims());
  Instruction* less = b.graph.compare(x.at, y.at, ir::ComparisonDirection::lt);
  Instruction* positive =
      b.graph.compare(x.at, b.graph.constant(0, x.dims()).at, ir::ComparisonDirection::gt);
  const Opcode opcodes[] = {Opcode::and_, Opcode::or_, Opcode::xor_};
  Instruction* both = b.graph.op(opcodes[b.random.below(3)], {less, positive});
  Instruction* flipped = b.graph.op(Opcode::not_, {both});
  b.push({b.graph.convert(b.random.chance(0.5) ? both : flipped, DType::f32), 1, true});
}

// Uniform numbers in [0, 1) from a counter-based generator.
void random_numbers(Builder& b) {
  const Dims dims = b.any_shape();
  const std::uint64_t words[] = {b.random.bits(), b.random.below(1000), b.random.below(3)};
  const std::int64_t size = b.random.between(2, 3);
  Instruction* state = b.graph.computation().add_constant(
      ir::Literal::array<std::uint64_t>({size}, std::span(words, static_cast<std::size_t>(size))));
  Attributes attributes;
  attributes.rng_algorithm = ir::RngAlgorithm::philox;
  Instruction* pair = b.graph.given(Opcode::rng_bit_generator,
                                    Shape::tuple({state->shape(), Shape(DType::u32, dims)}),
                                    {state}, std::move(attributes));
  Instruction* bits = b.graph.computation().add_get_tuple_element(pair, 1);
  Instruction* nine = b.graph.spread(b.graph.scalar(std::uint32_t{9}), dims);
  Instruction* high = b.graph.op(Opcode::shift_right_logical, {bits, nine});
  const Value number{b.graph.convert(high, DType::f32), 0x1p23, true};
  const Value uniform = b.graph.scaled(number, 0x1p-23);
  if (b.random.chance(0.5)) return b.push(uniform);
  // Dropout.
  const Value x = b.graph.fitted(b.any(), dims);
  Instruction* keep =
      b.graph.compare(uniform.at, b.graph.constant(0.3, dims).at, ir::ComparisonDirection::ge);
  b.push(
      {b.graph.op(Opcode::select, {keep, x.at, b.graph.constant(0, dims).at}), x.bound, x.exact});
}

void counted(Builder& b) {
  const Dims dims = b.any_shape();
  Attributes attributes;
  attributes.dimensions = {b.random.between(0, 1)};
  const std::int64_t extent = dims[static_cast<int>(attributes.dimensions[0])];
  Instruction* numbers =
      b.graph.given(Opcode::iota, Shape(DType::s32, dims), {}, std::move(attributes));
  const Value floats{b.graph.convert(numbers, DType::f32), static_cast<double>(extent), true};
  b.push(b.graph.scaled(floats, 1.0 / static_cast<double>(extent)));
}

}  // namespace

std::vector<Step> dtype_steps() {
  return {through_float, through_float, through_integer, through_pred, random_numbers, counted};
}

}  // namespace plimsoll::cases
