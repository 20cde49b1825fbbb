// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/math/huge_argument.h"
#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts64.h"

// sin, cos, tan and atan2 for any f64 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math::f64 {
namespace parts {

// Above it, reduction by three parts of pi/2 runs out of bits.
inline constexpr double kHuge = 0x1p30;

// x = (quadrant + ...) * pi/2 with the rest, angle, at most pi/4 or so.
template <typename W, typename L>
struct Quarter {
  L quadrant;
  Pair<W> angle;
};

// Cody and Waite's reduction, for |x| <= kHuge.
template <typename W>
auto reduce_to_quarter(const W& x) {
  const W shifted = fma(x, like(x, 0x1.45f306dc9c883p-1), like(x, kRounder));
  const W count = shifted - like(x, kRounder);
  const auto quadrant = bits_of(shifted);
  // The difference is exact; the second product is as a pair, the third is small.
  const W rest = fma(count, like(x, -0x1.921fb54442d18p+0), x);
  const auto second = two_product(count, like(x, -0x1.1a62633145c07p-54));
  const auto sum = two_sum(rest, second.high);
  const W low = sum.low + fma(count, like(x, 0x1.f1976b7ed9p-110), second.low);
  return Quarter<W, std::decay_t<decltype(quadrant)>>{quadrant, fast_two_sum(sum.high, low)};
}

template <typename W>
Pair<W> sine_of_angle(const Pair<W>& angle) {
  static constexpr double kSeries[] = {-0x1.5555555555549p-3,  0x1.111111110f881p-7,
                                       -0x1.a01a019c125c4p-13, 0x1.71de3578611b2p-19,
                                       -0x1.ae5e66c2c725p-26,  0x1.5d932973665b3p-33};
  const W square = angle.high * angle.high;
  const W slope = fma(square, like(square, -0.5), like(square, 1.0));
  const W cubic = angle.high * square * math::parts::horner(square, kSeries);
  return {angle.high, fma(angle.low, slope, cubic)};
}

template <typename W>
Pair<W> cosine_of_angle(const Pair<W>& angle) {
  static constexpr double kSeries[] = {0x1.555555555554cp-5,  -0x1.6c16c16c15185p-10,
                                       0x1.a01a019cb2851p-16, -0x1.27e4f80a86356p-22,
                                       0x1.1ee9ec527932ep-29, -0x1.8faed4c1bbb03p-37};
  const W half = like(angle.high, 0.5);
  const auto square = two_product(angle.high, angle.high);
  const auto sum = fast_two_sum(like(half, 1.0), -(half * square.high));
  const W quartic = square.high * square.high * math::parts::horner(square.high, kSeries);
  const W lost = fma(angle.high, angle.low, half * square.low);
  return {sum.high, sum.low + (quartic - lost)};
}

// sin(angle + quadrant * pi/2).
template <typename W, typename L>
W sine_of_quarter(const Pair<W>& angle, const L& quadrant) {
  const auto zero = like(quadrant, std::int64_t{0});
  const auto even = (quadrant & like(quadrant, std::int64_t{1})) == zero;
  const auto positive = (quadrant & like(quadrant, std::int64_t{2})) == zero;
  const auto sine = sine_of_angle(angle);
  const auto cosine = cosine_of_angle(angle);
  const W value = select(even, sine.high, cosine.high) + select(even, sine.low, cosine.low);
  return select(positive, value, -value);
}

template <typename W, typename L>
W tangent_of_quarter(const Pair<W>& angle, const L& quadrant) {
  const auto even = (quadrant & like(quadrant, std::int64_t{1})) == like(quadrant, std::int64_t{0});
  const auto s = sine_of_angle(angle);
  const auto c = cosine_of_angle(angle);
  const auto sine = fast_two_sum(s.high, s.low);
  const auto cosine = fast_two_sum(c.high, c.low);
  return quotient<W>({select(even, sine.high, -cosine.high), select(even, sine.low, -cosine.low)},
                     {select(even, cosine.high, sine.high), select(even, cosine.low, sine.low)});
}

// (atan(r) / r - 1) / r^2 for |r| up to tan(pi/8).
inline constexpr double kAtanSeries[] = {
    -0x1.5555555555554p-2, 0x1.9999999999657p-3, -0x1.2492492475bf8p-3, 0x1.c71c71b76e30ep-4,
    -0x1.745d14be53367p-4, 0x1.3b136e8d76187p-4, -0x1.110c77edd7706p-4, 0x1.e1725dc1ba8ecp-5,
    -0x1.ab7fb70e01c22p-5, 0x1.70f5c6ad979a9p-5, -0x1.124a7de6480dp-5,  0x1.f2312be5bb425p-7};

template <typename W>
auto is_huge(const W& x) {
  return magnitude(x) > like(x, kHuge);
}

}  // namespace parts

template <typename W>
W sin(const W& argument) {
  return in_own_function("sine", argument, [](const W& x) {
    const auto quarter = parts::reduce_to_quarter(x);
    const W value = parts::sine_of_quarter(quarter.angle, quarter.quadrant);
    const W small = select(parts::magnitude(x) < like(x, 0x1p-30), x, value);
    return at_lanes(parts::is_huge(x), small, kSineOfHuge, x);
  });
}

template <typename W>
W cos(const W& argument) {
  return in_own_function("cosine", argument, [](const W& x) {
    const auto quarter = parts::reduce_to_quarter(x);
    const auto one = like(quarter.quadrant, std::int64_t{1});
    const W value = parts::sine_of_quarter(quarter.angle, quarter.quadrant + one);
    return at_lanes(parts::is_huge(x), value, kCosineOfHuge, x);
  });
}

template <typename W>
W tan(const W& argument) {
  return in_own_function("tangent", argument, [](const W& x) {
    const auto quarter = parts::reduce_to_quarter(x);
    const W value = parts::tangent_of_quarter(quarter.angle, quarter.quadrant);
    const W small = select(parts::magnitude(x) < like(x, 0x1p-30), x, value);
    return at_lanes(parts::is_huge(x), small, kTangentOfHuge, x);
  });
}

template <typename W>
W atan2(const W& y, const W& x) {
  const W zero = like(x, 0.0);
  const W one = like(x, 1.0);
  const W a = parts::magnitude(x);
  const W b = parts::magnitude(y);
  const auto steep = b > a;
  const W larger = select(steep, b, a);
  // Into a range where neither the sum nor the remainders of the division leave the exponents.
  const W scale = select(larger < like(x, 0x1p500), like(x, 0x1p500), like(x, 0x1p-100));
  const W large = larger * scale;
  const W small = select(steep, a, b) * scale;
  // Past tan(pi/8) the angle is measured from the diagonal.
  const auto near_diagonal = small > large * like(x, 0.41421356237309503);
  const Pair<W> difference = two_sum(small, -large);
  const Pair<W> sum = two_sum(large, small);
  const Pair<W> numerator{select(near_diagonal, difference.high, small),
                          select(near_diagonal, difference.low, zero)};
  const Pair<W> denominator{select(near_diagonal, sum.high, large),
                            select(near_diagonal, sum.low, zero)};
  const Pair<W> exact = divide(numerator, denominator);
  const auto infinite = large == like(x, parts::kInfinity);
  const auto no_ratio = infinite | (large == zero);
  const W ratio = select(no_ratio, zero, exact.high);
  const W ratio_low = select(no_ratio, zero, exact.low);
  const W square = ratio * ratio;
  const W tail = fma(ratio * square, math::parts::horner(square, parts::kAtanSeries),
                     fma(-ratio_low, square, ratio_low));

  // The angle is eighths * pi/4 plus or minus (ratio + tail).
  const auto diagonal = near_diagonal | (small == like(x, parts::kInfinity));
  W eighths = select(diagonal, one, zero);
  eighths = select(steep, like(x, 2.0) - eighths, eighths);
  const auto x_bits = bits_of(x);
  const auto left = x_bits < like(x_bits, std::int64_t{0});
  eighths = select(left, like(x, 4.0) - eighths, eighths);
  const W direction = select(steep, -one, one) * select(left, -one, one);
  const auto base = two_product(eighths, like(x, 0x1.921fb54442d18p-1));
  const W base_low = fma(eighths, like(x, 0x1.1a62633145c07p-55), base.low);
  const auto angle = fast_two_sum(base.high, direction * ratio);
  const W result = angle.high + (angle.low + fma(direction, tail, base_low));
  return select((x != x) | (y != y), x + y, parts::with_sign_of(result, y));
}

}  // namespace plimsoll::math::f64
