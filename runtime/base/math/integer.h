// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "runtime/base/math/scalar.h"

// The operations of ops.def on plain integers of every width, which wrap, and on truth values.
// Divisions and shifts are defined for all operands (docs/numerics.md).
namespace plimsoll::math {
namespace parts {

// In 64 bits without sign, where nothing overflows that the result's bits show.
template <typename T>
std::uint64_t wide_bits(ScalarInteger<T> a) {
  return static_cast<std::uint64_t>(a.value);
}
template <typename T>
ScalarInteger<T> cut(std::uint64_t bits) {
  return {static_cast<T>(bits)};
}

}  // namespace parts

template <typename T>
ScalarInteger<T> abs(ScalarInteger<T> x) {
  if constexpr (std::is_signed_v<T>) {
    if (x.value < 0) return parts::cut<T>(-parts::wide_bits(x));
  }
  return x;
}
template <typename T>
ScalarInteger<T> negate(ScalarInteger<T> x) {
  return parts::cut<T>(-parts::wide_bits(x));
}
template <typename T>
ScalarInteger<T> sign(ScalarInteger<T> x) {
  return {static_cast<T>((x.value > T{0}) - (x.value < T{0}))};
}
template <typename T>
ScalarInteger<T> bit_not(ScalarInteger<T> x) {
  return parts::cut<T>(~parts::wide_bits(x));
}
template <typename T>
ScalarInteger<T> population_count(ScalarInteger<T> x) {
  return {static_cast<T>(std::popcount(lane_bits(x)))};
}
template <typename T>
ScalarInteger<T> leading_zeros(ScalarInteger<T> x) {
  return {static_cast<T>(std::countl_zero(lane_bits(x)))};
}

template <typename T>
ScalarInteger<T> add(ScalarInteger<T> a, ScalarInteger<T> b) {
  return parts::cut<T>(parts::wide_bits(a) + parts::wide_bits(b));
}
template <typename T>
ScalarInteger<T> subtract(ScalarInteger<T> a, ScalarInteger<T> b) {
  return parts::cut<T>(parts::wide_bits(a) - parts::wide_bits(b));
}
template <typename T>
ScalarInteger<T> multiply(ScalarInteger<T> a, ScalarInteger<T> b) {
  return parts::cut<T>(parts::wide_bits(a) * parts::wide_bits(b));
}
// All ones for x / 0; the least integer divided by -1 wraps.
template <typename T>
ScalarInteger<T> divide(ScalarInteger<T> a, ScalarInteger<T> b) {
  if (b.value == 0) return {static_cast<T>(-1)};
  if constexpr (std::is_signed_v<T>) {
    if (b.value == -1) return negate(a);
  }
  return {static_cast<T>(a.value / b.value)};
}
template <typename T>
ScalarInteger<T> remainder(ScalarInteger<T> a, ScalarInteger<T> b) {
  if (b.value == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b.value == -1) return {0};
  }
  return {static_cast<T>(a.value % b.value)};
}
// Powers wrap; a negative exponent leaves only what 1 / x^n rounds to toward zero.
template <typename T>
ScalarInteger<T> pow(ScalarInteger<T> base, ScalarInteger<T> exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent.value < 0) {
      if (base.value == 1) return {1};
      if (base.value == -1) return {exponent.value % 2 == 0 ? T{1} : T{-1}};
      return {0};
    }
  }
  std::uint64_t left = parts::wide_bits(exponent);
  std::uint64_t factor = parts::wide_bits(base);
  std::uint64_t product = 1;
  for (; left != 0; left >>= 1, factor *= factor) {
    if ((left & 1) != 0) product *= factor;
  }
  return parts::cut<T>(product);
}
template <typename T>
ScalarInteger<T> maximum(ScalarInteger<T> a, ScalarInteger<T> b) {
  return a.value > b.value ? a : b;
}
template <typename T>
ScalarInteger<T> minimum(ScalarInteger<T> a, ScalarInteger<T> b) {
  return a.value < b.value ? a : b;
}
template <typename T>
ScalarInteger<T> bit_and(ScalarInteger<T> a, ScalarInteger<T> b) {
  return parts::cut<T>(parts::wide_bits(a) & parts::wide_bits(b));
}
template <typename T>
ScalarInteger<T> bit_or(ScalarInteger<T> a, ScalarInteger<T> b) {
  return parts::cut<T>(parts::wide_bits(a) | parts::wide_bits(b));
}
template <typename T>
ScalarInteger<T> bit_xor(ScalarInteger<T> a, ScalarInteger<T> b) {
  return parts::cut<T>(parts::wide_bits(a) ^ parts::wide_bits(b));
}

// A negative amount is a huge one without sign; by the width or more nothing is left but, for the
// arithmetic shift, the sign.
template <typename T>
ScalarInteger<T> shift_left(ScalarInteger<T> a, ScalarInteger<T> by) {
  if (lane_bits(by) >= 8 * sizeof(T)) return {0};
  return parts::cut<T>(parts::wide_bits(a) << lane_bits(by));
}
template <typename T>
ScalarInteger<T> shift_right_logical(ScalarInteger<T> a, ScalarInteger<T> by) {
  if (lane_bits(by) >= 8 * sizeof(T)) return {0};
  return {static_cast<T>(lane_bits(a) >> lane_bits(by))};
}
template <typename T>
ScalarInteger<T> shift_right_arithmetic(ScalarInteger<T> a, ScalarInteger<T> by) {
  const std::uint64_t most = 8 * sizeof(T) - 1;
  const std::uint64_t amount = lane_bits(by) < most ? lane_bits(by) : most;
  return {static_cast<T>(static_cast<std::make_signed_t<T>>(a.value) >> amount)};
}

// Addition and multiplication of truth values are `or` and `and`, and so are maximum and minimum.
inline ScalarMask add(ScalarMask a, ScalarMask b) { return a | b; }
inline ScalarMask multiply(ScalarMask a, ScalarMask b) { return a & b; }
inline ScalarMask maximum(ScalarMask a, ScalarMask b) { return a | b; }
inline ScalarMask minimum(ScalarMask a, ScalarMask b) { return a & b; }
inline ScalarMask bit_and(ScalarMask a, ScalarMask b) { return a & b; }
inline ScalarMask bit_or(ScalarMask a, ScalarMask b) { return a | b; }
inline ScalarMask bit_xor(ScalarMask a, ScalarMask b) { return {a.value != b.value}; }
inline ScalarMask bit_not(ScalarMask x) { return !x; }

}  // namespace plimsoll::math
