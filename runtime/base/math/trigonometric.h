// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/math/huge_argument.h"
#include "runtime/base/math/parts.h"

// sin, cos, tan and atan2 for any f32 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math {
namespace parts {

// Above it, reduction by two parts of pi/2 runs out of bits.
inline constexpr float kHuge = 0x1p28f;

// x = quadrant * pi/2 + angle with |angle| a little over pi/4 at most, as sine and cosine of the
// angle.
template <typename W, typename L>
struct Quarter {
  L quadrant;
  W sine, cosine;
};

// Cody and Waite's reduction, for |x| <= kHuge.
template <typename W>
auto reduce_to_quarter(const W& x) {
  static constexpr double kSine[] = {-0x1.5555554cbb579p-3, 0x1.111108972b1a8p-7,
                                     -0x1.a00f9e4addc3fp-13, 0x1.6cd87d7ad9404p-19};
  static constexpr double kCosine[] = {0x1.5555554f4f6c1p-5, -0x1.6c16b89a60b9cp-10,
                                       0x1.a01121500251ap-16, -0x1.242b15a83dd2bp-22};
  // Adding 1.5 * 2^52 rounds to an integer that stands in the low bits.
  const W rounder = like(x, 0x1.8p52);
  const W shifted = fma(x, like(x, 0x1.45f306dc9c883p-1), rounder);
  const W count = shifted - rounder;
  const auto quadrant = bits_of(shifted);
  const W rest = fma(count, like(x, -0x1.921fb54442d18p+0), x);
  const W angle = fma(count, like(x, -0x1.1a62633145c07p-54), rest);
  const W square = angle * angle;
  return Quarter<W, std::decay_t<decltype(quadrant)>>{
      quadrant, fma(angle * square, horner(square, kSine), angle),
      fma(square * square, horner(square, kCosine), fma(square, like(x, -0.5), like(x, 1.0)))};
}

// sin(x + shift * pi/2).
template <typename W>
W shifted_sine(const W& x, std::int64_t shift) {
  const auto quarter = reduce_to_quarter(x);
  const auto quadrant = quarter.quadrant + like(quarter.quadrant, shift);
  const auto zero = like(quadrant, std::int64_t{0});
  const auto even = (quadrant & like(quadrant, std::int64_t{1})) == zero;
  const auto positive = (quadrant & like(quadrant, std::int64_t{2})) == zero;
  const W value = select(even, quarter.sine, quarter.cosine);
  return select(positive, value, -value);
}

// `common` but where x is huge.
template <typename V, typename W>
V unless_huge(const V& x, const W& common, const LaneFunction& huge) {
  return narrow(
      at_lanes(widen(magnitude(x)) > like(common, double{kHuge}), common, huge, widen(x)));
}

}  // namespace parts

template <typename V>
V sin(const V& argument) {
  return in_own_function("sine", argument, [](const V& x) {
    const V result = parts::unless_huge(x, parts::shifted_sine(widen(x), 0), kSineOfHuge);
    return select(x == like(x, 0.0f), x, result);
  });
}

template <typename V>
V cos(const V& argument) {
  return in_own_function("cosine", argument, [](const V& x) {
    return parts::unless_huge(x, parts::shifted_sine(widen(x), 1), kCosineOfHuge);
  });
}

template <typename V>
V tan(const V& argument) {
  return in_own_function("tangent", argument, [](const V& x) {
    const auto quarter = parts::reduce_to_quarter(widen(x));
    const auto one = like(quarter.quadrant, std::int64_t{1});
    const auto even = (quarter.quadrant & one) == like(one, std::int64_t{0});
    const auto numerator = select(even, quarter.sine, -quarter.cosine);
    const auto denominator = select(even, quarter.cosine, quarter.sine);
    const V result = parts::unless_huge(x, numerator / denominator, kTangentOfHuge);
    return select(x == like(x, 0.0f), x, result);
  });
}

template <typename V>
V atan2(const V& y, const V& x) {
  static constexpr double kSeries[] = {
      -0x1.5555554efb098p-2, 0x1.99999214422e8p-3, -0x1.2490c6824ad31p-3, 0x1.c6d2622980c5bp-4,
      -0x1.7086b208f85c5p-4, 0x1.1e6d18bd4de34p-4, -0x1.36e4cd9aa584dp-5};
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
