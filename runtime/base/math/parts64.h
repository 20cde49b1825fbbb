// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/base/math/parts.h"

// Pieces shared by the f64 functions, over W and L of scalar.h.
namespace plimsoll::math::f64::parts {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kSmallestNormal = 0x1p-1022;
// Adding 1.5 * 2^52 to a double below 2^51 rounds it to an integer that stands in the low bits.
inline constexpr double kRounder = 0x1.8p52;
inline constexpr std::int64_t kRounderBits = 0x4338000000000000;

template <typename W>
W magnitude(const W& x) {
  const auto bits = bits_of(x);
  return from_bits(bits & like(bits, std::numeric_limits<std::int64_t>::max()));
}

template <typename W>
W with_sign_of(const W& magnitude, const W& sign) {
  const auto bits = bits_of(sign);
  return from_bits(bits_of(magnitude) |
                   (bits & like(bits, std::numeric_limits<std::int64_t>::min())));
}

// 2^n for -1022 <= n <= 1023, zero for -1023.
template <typename L>
auto power_of_two(const L& n) {
  return from_bits((n + like(n, std::int64_t{1023})) << 52);
}

// x * 2^n for -2044 <= n <= 2046, rounded once where |x| is about 1.
template <typename W, typename L>
W scaled(const W& x, const L& n) {
  const auto half = n >> 1;
  return x * power_of_two(half) * power_of_two(n - half);
}

inline constexpr double kExpm1Series[] = {  // (e^r - 1 - r) / r^2
    0x1p-1,
    0x1.555555555555cp-3,
    0x1.555555555555ep-5,
    0x1.111111110ebb8p-7,
    0x1.6c16c16c13582p-10,
    0x1.a01a01b3b93ddp-13,
    0x1.a01a01b45f09bp-16,
    0x1.71ddef9850febp-19,
    0x1.27e4bf144d281p-22,
    0x1.af6cc53d79639p-26,
    0x1.1f9e216ec5fdap-29};

// e^x = 2^n * e^(r.high + r.low) with |r| a little over ln(2) / 2 at most.
template <typename W, typename L>
struct Exponent {
  L n;
  Pair<W> r;
};

// |x| at most 2^20; a NaN passes into r.high.
template <typename W>
auto reduce_exponent(const W& x) {
  const W shifted = fma(x, like(x, 0x1.71547652b82fep+0), like(x, kRounder));
  const W count = shifted - like(x, kRounder);
  const auto bits = bits_of(shifted);
  const auto n = bits - like(bits, kRounderBits);
  // The first product leaves an exact difference.
  const W rest = fma(count, like(x, -0x1.62e42fefa39efp-1), x);
  const W r = fma(count, like(x, -0x1.abc9e3b39803fp-56), rest);
  const W lost = fma(count, like(x, -0x1.abc9e3b39803fp-56), rest - r);
  return Exponent<W, std::decay_t<decltype(n)>>{n, {r, lost}};
}

// e^r, the larger part rounded from it.
template <typename W>
Pair<W> exp_near_zero(const Pair<W>& r) {
  const Pair<W> sum = fast_two_sum(like(r.high, 1.0), r.high);
  const W rest = fma(r.high * r.high, math::parts::horner(r.high, kExpm1Series), r.low);
  return fast_two_sum(sum.high, sum.low + rest);
}

template <typename W>
W clamped(const W& x, double lowest, double highest) {
  const W high = like(x, highest);
  const W low = like(x, lowest);
  const W below = select(x > high, high, x);
  return select(below < low, low, below);
}

// e^(x + low) for `low` far below x.
template <typename W>
W exp_of_pair(const W& x, const W& low) {
  const auto exponent = reduce_exponent(clamped(x, -746.0, 710.0));
  const Pair<W>& r = exponent.r;
  return scaled(exp_near_zero<W>({r.high, r.low + low}).high, exponent.n);
}

// e^x, NaN for NaN.
template <typename W>
W exp(const W& x) {
  // n is at least -1077, where the bits of the first factor are those of zero, so that there is no
  // underflow. It is 2^-1022 or more above.
  const auto exponent = reduce_exponent(clamped(x, -746.5, 710.0));
  const auto& n = exponent.n;
  const auto half = n >> 1;
  const auto moved = like(n, std::int64_t{484});
  return exp_near_zero(exponent.r).high * power_of_two(half - moved) *
         power_of_two((n - half) + moved);
}

// a = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for positive normal a.
template <typename W, typename L>
struct Logarithm {
  L exponent;
  W f;
};
template <typename W>
auto split(const W& a) {
  const auto bits = bits_of(a);
  const auto exponent_bits = (bits - like(bits, std::int64_t{0x3fe6a09e667f3bcd})) &
                             like(bits, std::int64_t{-0x10000000000000});
  return Logarithm<W, std::decay_t<decltype(bits)>>{exponent_bits >> 52,
                                                    from_bits(bits - exponent_bits) - like(a, 1.0)};
}

// The integer in `n`, |n| below 2^51, as a float.
template <typename W, typename L>
W to_double(const W& where, const L& n) {
  return from_bits(n + like(n, kRounderBits)) - like(where, kRounder);
}

}  // namespace plimsoll::math::f64::parts
