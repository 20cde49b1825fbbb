// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "runtime/ir/interpreter/interpreter_numbers.h"
#include "runtime/ir/scalar_function.h"

namespace plimsoll::ir::interpreter {
namespace {

// Rounds the significand to nearest even in `mantissa_bits`, then sends what `exponent_bits` cannot
// hold to infinity or a signed zero (there are no subnormals in the target format).
template <typename Float, typename Bits, int kMantissaBits, int kExponentBits>
Float reduce_precision(Float value, int exponent_bits, int mantissa_bits) {
  if (std::isnan(value)) return value;
  Bits bits = std::bit_cast<Bits>(value);
  if (mantissa_bits < kMantissaBits) {
    const int dropped = kMantissaBits - mantissa_bits;
    const Bits last = Bits{1} << dropped;
    bits += (last >> 1) - 1 + ((bits >> dropped) & 1);
    bits &= ~(last - 1);
  }
  if (exponent_bits < kExponentBits) {
    constexpr Bits kExponentMask = ((Bits{1} << kExponentBits) - 1) << kMantissaBits;
    constexpr std::int64_t kBias = (std::int64_t{1} << (kExponentBits - 1)) - 1;
    const std::int64_t reduced_bias = (std::int64_t{1} << (exponent_bits - 1)) - 1;
    const auto exponent = static_cast<std::int64_t>((bits & kExponentMask) >> kMantissaBits);
    const Bits sign = bits & ~(kExponentMask | ((Bits{1} << kMantissaBits) - 1));
    if (exponent > kBias + reduced_bias) bits = sign | kExponentMask;
    if (exponent <= kBias - reduced_bias) bits = sign;
  }
  return std::bit_cast<Float>(bits);
}

template <typename T>
T reduce_precision(T value, const Attributes& attributes) {
  if constexpr (sizeof(T) == 4) {
    return reduce_precision<float, std::uint32_t, 23, 8>(value, attributes.exponent_bits,
                                                         attributes.mantissa_bits);
  } else {
    return reduce_precision<double, std::uint64_t, 52, 11>(value, attributes.exponent_bits,
                                                           attributes.mantissa_bits);
  }
}

}  // namespace

void apply_unary(Opcode opcode, const Attributes& attributes, const View& operand,
                 std::byte* result, std::int64_t count) {
  visit_dtype(operand.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto each = [&](auto f) {
      for (std::int64_t i = 0; i < count; ++i) write<T>(result, i, f(read<T>(operand, i)));
    };
    if (opcode == Opcode::copy) return each([](Number<T> x) { return x; });
    if constexpr (kIsFloat<T>) {
      if (opcode == Opcode::is_finite) {
        for (std::int64_t i = 0; i < count; ++i) {
          write<bool>(result, i, std::isfinite(read<T>(operand, i)));
        }
        return;
      }
      if (opcode == Opcode::reduce_precision) {
        return each([&](Number<T> x) { return reduce_precision(x, attributes); });
      }
    }
    visit_unary<Value<T>>(opcode, [&](auto function) {
      each([&](Number<T> x) { return function(Value<T>{x}).value; });
    });
  });
}

}  // namespace plimsoll::ir::interpreter
