// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>

#include "runtime/base/math/float64.h"
#include "runtime/base/math/transcendental.h"
#include "runtime/ir/interpreter/interpreter_numbers.h"

namespace plimsoll::ir::interpreter {
namespace {

template <typename T, typename F>
void each(const View& operand, std::byte* result, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) {
    write<T>(result, i, static_cast<Number<T>>(f(read<T>(operand, i))));
  }
}

float transcendental(Opcode opcode, float value) {
  const math::ScalarF32 x{value};
  switch (opcode) {
    case Opcode::exponential:
      return math::exp(x).value;
    case Opcode::exponential_minus_one:
      return math::expm1(x).value;
    case Opcode::log:
      return math::log(x).value;
    case Opcode::log_plus_one:
      return math::log1p(x).value;
    case Opcode::logistic:
      return math::logistic(x).value;
    case Opcode::tanh:
      return math::tanh(x).value;
    case Opcode::sine:
      return math::sin(x).value;
    case Opcode::cosine:
      return math::cos(x).value;
    case Opcode::tan:
      return math::tan(x).value;
    case Opcode::erf:
      return math::erf(x).value;
    case Opcode::rsqrt:
      return math::rsqrt(x).value;
    case Opcode::cbrt:
      return math::cbrt(x).value;
    default:
      return value;
  }
}

double transcendental(Opcode opcode, double x) {
  switch (opcode) {
    case Opcode::exponential:
      return math::f64::exp(x);
    case Opcode::exponential_minus_one:
      return math::f64::expm1(x);
    case Opcode::log:
      return math::f64::log(x);
    case Opcode::log_plus_one:
      return math::f64::log1p(x);
    case Opcode::logistic:
      return math::f64::logistic(x);
    case Opcode::tanh:
      return math::f64::tanh(x);
    case Opcode::sine:
      return math::f64::sin(x);
    case Opcode::cosine:
      return math::f64::cos(x);
    case Opcode::tan:
      return math::f64::tan(x);
    case Opcode::erf:
      return math::f64::erf(x);
    case Opcode::rsqrt:
      return math::f64::rsqrt(x);
    case Opcode::cbrt:
      return math::f64::cbrt(x);
    default:
      return x;
  }
}

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
void floating(Opcode opcode, const Attributes& attributes, const View& operand, std::byte* result,
              std::int64_t count) {
  using N = Number<T>;
  switch (opcode) {
    case Opcode::ceil:
      return each<T>(operand, result, count, [](N x) { return std::ceil(x); });
    case Opcode::floor:
      return each<T>(operand, result, count, [](N x) { return std::floor(x); });
    case Opcode::round_nearest_afz:
      return each<T>(operand, result, count, [](N x) { return std::round(x); });
    case Opcode::round_nearest_even:
      return each<T>(operand, result, count, [](N x) { return std::nearbyint(x); });
    case Opcode::sqrt:
      return each<T>(operand, result, count, [](N x) { return std::sqrt(x); });
    case Opcode::is_finite:
      for (std::int64_t i = 0; i < count; ++i) {
        write<bool>(result, i, std::isfinite(read<T>(operand, i)));
      }
      return;
    case Opcode::reduce_precision:
      return each<T>(operand, result, count, [&](N x) {
        if constexpr (sizeof(N) == 4) {
          return reduce_precision<float, std::uint32_t, 23, 8>(x, attributes.exponent_bits,
                                                               attributes.mantissa_bits);
        } else {
          return reduce_precision<double, std::uint64_t, 52, 11>(x, attributes.exponent_bits,
                                                                 attributes.mantissa_bits);
        }
      });
    default:
      return each<T>(operand, result, count, [&](N x) { return transcendental(opcode, x); });
  }
}

}  // namespace

void apply_unary(Opcode opcode, const Attributes& attributes, const View& operand,
                 std::byte* result, std::int64_t count) {
  visit_dtype(operand.dtype, [&](auto tag) {
    using T = decltype(tag);
    using N = Number<T>;
    switch (opcode) {
      case Opcode::copy:
        return each<T>(operand, result, count, [](N x) { return x; });
      case Opcode::abs:
        return each<T>(operand, result, count, [](N x) {
          if constexpr (kIsFloat<T>) return std::fabs(x);
          if constexpr (kIsInteger<T> && std::is_signed_v<N>) {
            return x < 0 ? static_cast<N>(-static_cast<std::uint64_t>(x)) : x;
          }
          return x;
        });
      case Opcode::negate:
        return each<T>(operand, result, count, [](N x) {
          if constexpr (kIsInteger<T>) return static_cast<N>(-static_cast<std::uint64_t>(x));
          if constexpr (kIsFloat<T>) return -x;
          return x;
        });
      case Opcode::sign:
        return each<T>(operand, result, count, [](N x) {
          if constexpr (kIsFloat<T>) {
            return x > 0 ? N{1} : x < 0 ? N{-1} : x;
          } else {
            return static_cast<N>((x > N{0}) - (x < N{0}));
          }
        });
      case Opcode::not_:
        return each<T>(operand, result, count, [](N x) {
          if constexpr (kIsPred<T>) return !x;
          if constexpr (kIsInteger<T>) return static_cast<N>(~static_cast<std::uint64_t>(x));
          return x;
        });
      case Opcode::popcnt:
      case Opcode::count_leading_zeros:
        return each<T>(operand, result, count, [&](N x) {
          if constexpr (kIsInteger<T>) {
            const auto bits = static_cast<std::make_unsigned_t<T>>(x);
            return static_cast<N>(opcode == Opcode::popcnt ? std::popcount(bits)
                                                           : std::countl_zero(bits));
          }
          return x;
        });
      default:
        if constexpr (kIsFloat<T>) floating<T>(opcode, attributes, operand, result, count);
    }
  });
}

}  // namespace plimsoll::ir::interpreter
