// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/math/parts.h"

// sin, cos, tan and atan2 for any f32 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math {
namespace parts {

// x = (quadrant + turn) * pi/2 with |turn| <= 1/2, and the sine and cosine of the turn's angle.
template <typename W, typename I>
struct Quarter {
  I quadrant;
  W sine, cosine;
};

// Payne and Hanek's reduction: 2/pi is cut into 24-bit pieces, so that each product with x is exact
// in f64 and whole multiples of four drop out of it exactly; the rest is summed with a compensation
// term. Holds for every finite f32.
template <typename V>
auto reduce_to_quarter(const V& x) {
  static constexpr double kTwoOverPi[] = {
      10680707 * 0x1p-24,  7228996 * 0x1p-48,   1387004 * 0x1p-72,  2578385 * 0x1p-96,
      16069853 * 0x1p-120, 12639074 * 0x1p-144, 9804092 * 0x1p-168, 4427841 * 0x1p-192};
  static constexpr double kSine[] = {0x1.921fb54442cfap+0,  -0x1.4abbce6257a19p-1,
                                     0x1.466bc671228cdp-4,  -0x1.32d2c6436d172p-8,
                                     0x1.5071cd6eedeb2p-13, -0x1.dd5419648e748p-19};
  static constexpr double kCosine[] = {-0x1.3bd3cc9be45a5p+0,  0x1.03c1f081b149bp-2,
                                       -0x1.55d3c7dcb31ddp-6,  0x1.e1f4fbf8d2301p-11,
                                       -0x1.a6c9fefc0bae5p-16, 0x1.f3eeaa01488b6p-22};
  const auto wide = widen(x);
  using W = std::decay_t<decltype(wide)>;
  W high = like(wide, 0.0);
  W low = high;
  for (const double piece : kTwoOverPi) {
    const W product = wide * like(wide, piece);
    const W fours = round_even(product * like(wide, 0.25));
    const W term = fma(fours, like(wide, -4.0), product);
    const W sum = high + term;
    const W from_term = sum - high;
    low = low + ((high - (sum - from_term)) + (term - from_term));
    high = sum;
  }
  const W whole = round_even(high);
  const W turn = (high - whole) + low;
  const auto quadrant = integer_of(narrow(whole));
  const W square = turn * turn;
  return Quarter<W, std::decay_t<decltype(quadrant)>>{
      quadrant, turn * horner(square, kSine),
      fma(square, horner(square, kCosine), like(wide, 1.0))};
}

// sin(x + shift * pi/2).
template <typename V>
V shifted_sine(const V& x, std::int32_t shift) {
  const auto quarter = reduce_to_quarter(x);
  const auto quadrant = quarter.quadrant + like(quarter.quadrant, shift);
  const auto zero = like(quadrant, 0);
  const auto even = (quadrant & like(quadrant, 1)) == zero;
  const auto positive = (quadrant & like(quadrant, 2)) == zero;
  const auto value = select(even, quarter.sine, quarter.cosine);
  return narrow(select(positive, value, -value));
}

}  // namespace parts

template <typename V>
V sin(const V& x) {
  return select(x == like(x, 0.0f), x, parts::shifted_sine(x, 0));
}

template <typename V>
V cos(const V& x) {
  return parts::shifted_sine(x, 1);
}

template <typename V>
V tan(const V& x) {
  const auto quarter = parts::reduce_to_quarter(x);
  const auto even = (quarter.quadrant & like(quarter.quadrant, 1)) == like(quarter.quadrant, 0);
  const auto numerator = select(even, quarter.sine, -quarter.cosine);
  const auto denominator = select(even, quarter.cosine, quarter.sine);
  return select(x == like(x, 0.0f), x, narrow(numerator / denominator));
}

template <typename V>
V atan2(const V& y, const V& x) {
  static constexpr double kSeries[] = {
      -0x1.55555555521cap-2, 0x1.99999993a652bp-3,  -0x1.2492473f15ddp-3,
      0x1.c71bd98e2c76bp-4,  -0x1.744f855499846p-4, 0x1.3a570cdd83721p-4,
      -0x1.0aa8d096409cap-4, 0x1.9ca9d4e825e1dp-5,  -0x1.a15d5e6f66364p-6};
  const auto wide_x = widen(parts::magnitude(x));
  const auto wide_y = widen(parts::magnitude(y));
  const auto zero = like(wide_x, 0.0);
  const auto steep = wide_y > wide_x;
  const auto small = select(steep, wide_x, wide_y);
  const auto large = select(steep, wide_y, wide_x);
  // Past tan(pi/8) the angle is measured from the diagonal.
  const auto near_diagonal = small > large * like(wide_x, 0.41421356237309503);
  const auto both_infinite = small == like(wide_x, double{parts::kInfinity});
  const auto numerator = select(near_diagonal, small - large, small);
  auto denominator = select(near_diagonal, small + large, large);
  denominator = select(large == zero, like(wide_x, 1.0), denominator);
  const auto s = select(both_infinite, zero, numerator / denominator);
  const auto square = s * s;
  auto angle = fma(s * square, parts::horner(square, kSeries), s);
  angle = angle + select(near_diagonal | both_infinite, like(wide_x, 0x1.921fb54442d18p-1), zero);
  angle = select(steep, like(wide_x, 0x1.921fb54442d18p+0) - angle, angle);
  const auto x_bits = bits_of(x);
  angle = select(x_bits < like(x_bits, 0), like(wide_x, 0x1.921fb54442d18p+1) - angle, angle);
  const V result = parts::with_sign_of(narrow(angle), y);
  return select((x != x) | (y != y), x + y, result);
}

}  // namespace plimsoll::math
