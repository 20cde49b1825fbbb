// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "runtime/base/math/float64.h"
#include "runtime/base/philox.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/interpreter/interpreter_parts.h"
#include "runtime/ir/shapes/shape_inference.h"

namespace plimsoll::ir::interpreter {
namespace {

// Every algorithm is Philox here; three_fry and default only name what the program would have got
// elsewhere.
Result<Literal> bit_generator(const Instruction& instruction, const Literal& state) {
  const std::int64_t words = state.shape().element_count();
  if (!is_random_state(state.shape())) {
    return unsupported(instruction,
                       "state " + state.shape().to_string() + " (u64[2] or u64[3] are supported)");
  }
  const auto* numbers = state.data<std::uint64_t>();
  philox::State at = philox::load_state(numbers, words);
  Literal bits(instruction.shape().elements()[1]);
  const DType dtype = bits.shape().dtype();
  const std::int64_t count = bits.shape().element_count();
  philox::fill(at, dtype_bytes(dtype), 0, count, bits.mutable_bytes().data(),
               dtype == DType::pred ? 1u : 0xffffffffu);
  Literal next = Literal::from_bytes(instruction.shape().elements()[0], state.bytes());
  at = philox::advance(at,
                       static_cast<std::uint64_t>(philox::block_count(count, dtype_bytes(dtype))));
  philox::store_state(at, next.mutable_data<std::uint64_t>(), words);
  std::vector<Literal> results;
  results.push_back(std::move(next));
  results.push_back(std::move(bits));
  return Literal::tuple(std::move(results));
}

// Stateful draws have key 0 and the draw's ordinal in the counter's high half.
philox::State draw_state(Context& context) { return {0, 0, context.draws++}; }

double unit_interval(const philox::State& state, std::int64_t i) {
  std::uint64_t bits = 0;
  philox::fill(state, 8, i, i + 1, &bits);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double normal(const philox::State& state, std::int64_t i) {
  // Box and Muller; 1 - u is never zero.
  const double radius = std::sqrt(-2.0 * math::f64::log(1.0 - unit_interval(state, 2 * i)));
  return radius * math::f64::cos(6.283185307179586 * unit_interval(state, 2 * i + 1));
}

// `uniform` in [a, b), `normal` with mean a and deviation b.
Literal rng(Context& context, const Instruction& instruction, Operands operands) {
  const philox::State state = draw_state(context);
  const Shape& shape = instruction.shape();
  Literal result(shape);
  std::byte* bytes = result.mutable_bytes().data();
  const bool is_normal = instruction.attributes().rng_distribution == RngDistribution::normal;
  const std::int64_t size = dtype_bytes(shape.dtype());
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    if (is_floating(shape.dtype()) || is_normal) {
      const double a = operands[0]->at(0), b = operands[1]->at(0);
      double value = is_normal ? a + b * normal(state, i) : a + (b - a) * unit_interval(state, i);
      convert_elements({DType::f64, reinterpret_cast<const std::byte*>(&value)}, shape.dtype(),
                       bytes + i * size, 1);
      if (!is_normal && result.at(i) >= b && a < b) result.set(i, a);  // rounded up to the limit
      continue;
    }
    const std::int64_t low = integer_at(*operands[0], 0);
    const std::uint64_t width =
        static_cast<std::uint64_t>(integer_at(*operands[1], 0)) - static_cast<std::uint64_t>(low);
    std::uint64_t bits = 0;
    philox::fill(state, 8, i, i + 1, &bits);
    const auto value = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                                 (width == 0 ? 0 : bits % width));
    convert_elements({DType::s64, reinterpret_cast<const std::byte*>(&value)}, shape.dtype(),
                     bytes + i * size, 1);
  }
  return result;
}

}  // namespace

Result<Literal> random(Context& context, const Instruction& instruction, Operands operands) {
  switch (instruction.opcode()) {
    case Opcode::rng_bit_generator:
      return bit_generator(instruction, *operands[0]);
    case Opcode::rng:
      return rng(context, instruction, operands);
    default: {  // rng-get-and-update-state
      const philox::State state = draw_state(context);
      Literal result(instruction.shape());
      philox::fill(state, 8, 0, instruction.shape().byte_size() / 8, result.mutable_bytes().data());
      return result;
    }
  }
}

}  // namespace plimsoll::ir::interpreter
