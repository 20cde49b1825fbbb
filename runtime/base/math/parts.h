// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/base/math/pair.h"

// Pieces shared by the functions of this folder. See scalar.h for what V, I, W and M provide.
// All polynomial coefficients here are minimax fits (Remez exchange in 50 digits, weighted for
// relative error of the function), rounded to the format they are used in.
namespace plimsoll::math::parts {

inline constexpr std::int32_t kSignBit = std::numeric_limits<std::int32_t>::min();
inline constexpr std::int32_t kMagnitudeBits = 0x7fffffff;
inline constexpr std::int32_t kOneBits = 0x3f800000;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kSmallestNormal = 0x1p-126f;

template <typename V>
V magnitude(const V& x) {
  const auto bits = bits_of(x);
  return from_bits(bits & like(bits, kMagnitudeBits));
}

// `magnitude` >= 0 with the sign of `sign`.
template <typename V>
V with_sign_of(const V& magnitude, const V& sign) {
  const auto bits = bits_of(sign);
  return from_bits(bits_of(magnitude) | (bits & like(bits, kSignBit)));
}

// c[first] + x*(c[first + 1] + x*(...)), by fma.
template <typename T, typename C, int N>
T horner_from(const T& x, const C (&c)[N], int first) {
  T sum = like(x, c[N - 1]);
  for (int i = N - 2; i >= first; --i) sum = fma(sum, x, like(x, c[i]));
  return sum;
}
template <typename T, typename C, int N>
T horner(const T& x, const C (&c)[N]) {
  return horner_from(x, c, 0);
}

// Adding 1.5 * 2^23 to a small float rounds it to an integer that stands in the low bits.
inline constexpr float kRounder = 12582912.0f;

// 2^n for -126 <= n <= 127.
template <typename I>
auto power_of_two(const I& n) {
  return from_bits((n << 23) + like(n, kOneBits));
}

// e^x = 2^n * e^(r.high + r.low) with |r| a little over ln(2) / 2 at most; n also stands in the low
// bits of `shifted`.
template <typename V>
struct Exponent {
  V n, shifted;
  Pair<V> r;
};

// |x| at most 2^10; a NaN passes into r.high.
template <typename V>
Exponent<V> reduce_exponent(const V& x) {
  const V shifted = fma(x, like(x, 0x1.715476p+0f), like(x, kRounder));
  const V count = shifted - like(x, kRounder);
  // The first product leaves an exact difference.
  const V rest = fma(count, like(x, -0x1.62e43p-1f), x);
  const V r = fma(count, like(x, 0x1.05c61p-29f), rest);
  const V lost = fma(count, like(x, 0x1.05c61p-29f), rest - r);
  return {count, shifted, {r, lost}};
}

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
inline constexpr float kExpSeries[] = {0x1.fffffcp-2f, 0x1.55548ap-3f, 0x1.55585p-5f,
                                       0x1.123ec4p-7f, 0x1.6ac326p-10f};

template <typename V>
V at_most(const V& x, float highest) {
  const V high = like(x, highest);
  return select(x > high, high, x);
}

template <typename V>
V clamped(const V& x, float lowest, float highest) {
  const V low = like(x, lowest);
  const V below = at_most(x, highest);
  return select(below < low, low, below);
}

// For functions that are +0 from `lowest` down, by an underflow: f is computed of what the first of
// these gives, and its result handed to the second one. Where an underflow is slow, neither f nor
// its result has one from `lowest` down. T is V or W.
template <typename T, typename Number>
T clamped_to_zero(const T& x, Number lowest, Number highest) {
  const T high = like(x, highest);
  const T low = like(x, lowest);
  const T below = select(x > high, high, x);
  if (underflows_slowly(x)) return select(!(x <= low), below, like(x, Number{0}));
  return select(below < low, low, below);
}
template <typename T, typename Number>
T zero_up_to(const T& x, Number lowest, const T& result) {
  if (!underflows_slowly(x)) return result;
  return select(!(x <= like(x, lowest)), result, like(x, Number{0}));
}

// e^x, NaN for NaN: 2^n * e^r with r between -0.307 and 0.387, which is where e^r, and what
// rounding r costs it, are smallest beside the last place of the result.
template <typename V>
V exp(const V& x) {
  static constexpr float kSeries[] = {
      1.0f, 1.0f, 0x1.000004p-1f, 0x1.5554aap-3f, 0x1.5549cep-5f, 0x1.121f84p-7f, 0x1.7913fap-10f};
  constexpr float kLowest = -104;
  const V limited = clamped_to_zero(x, kLowest, 89.0f);
  const V n = round_even(fma(limited, like(x, 0x1.715476p+0f), like(x, -0.0577f)));
  // The first product leaves an exact difference.
  const V rest = fma(n, like(x, -0x1.62e43p-1f), limited);
  const V r = fma(n, like(x, 0x1.05c61p-29f), rest);
  return zero_up_to(x, kLowest, times_power(horner(r, kSeries), n));
}

}  // namespace plimsoll::math::parts
