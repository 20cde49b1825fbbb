// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts64.h"
#include "runtime/base/math/trigonometric64.h"

// asin, acos and atan for any f64 value type (scalar.h); f32 goes through them. Errors are in
// docs/numerics.md.
namespace plimsoll::math::f64 {
namespace parts {

// The cosine of an angle whose sine has the magnitude a <= 1: sqrt(1 - a^2).
template <typename W>
Pair<W> other_side(const W& a) {
  const Pair<W> square = two_product(a, a);
  const Pair<W> difference = two_sum(like(a, 1.0), -square.high);
  return math::sqrt_of_pair(fast_two_sum(difference.high, difference.low - square.low));
}

// As atan2, of a point (x, y) on the unit circle with x, y >= 0, or its mirror image in the y axis
// where `left`.
template <typename W, typename M>
W angle_on_circle(const Pair<W>& y, const Pair<W>& x, const M& left) {
  const W zero = like(x.high, 0.0);
  const W one = like(x.high, 1.0);
  const auto steep = y.high > x.high;
  const Pair<W> small{select(steep, x.high, y.high), select(steep, x.low, y.low)};
  const Pair<W> large{select(steep, y.high, x.high), select(steep, y.low, x.low)};
  // Past tan(pi/8) the angle is measured from the diagonal.
  const auto near_diagonal = small.high > large.high * like(zero, 0.41421356237309503);
  const Pair<W> difference = two_sum(small.high, -large.high);
  const Pair<W> sum = two_sum(large.high, small.high);
  const Pair<W> numerator{
      select(near_diagonal, difference.high, small.high),
      select(near_diagonal, difference.low + (small.low - large.low), small.low)};
  const Pair<W> denominator{select(near_diagonal, sum.high, large.high),
                            select(near_diagonal, sum.low + (small.low + large.low), large.low)};
  const Pair<W> ratio = divide(numerator, denominator);
  const W square = ratio.high * ratio.high;
  const W tail = fma(ratio.high * square, math::parts::horner(square, kAtanSeries),
                     fma(-ratio.low, square, ratio.low));

  // The angle is eighths * pi/4 plus or minus (ratio + tail).
  W eighths = select(near_diagonal, one, zero);
  eighths = select(steep, like(zero, 2.0) - eighths, eighths);
  eighths = select(left, like(zero, 4.0) - eighths, eighths);
  const W direction = select(steep, -one, one) * select(left, -one, one);
  const auto base = two_product(eighths, like(zero, 0x1.921fb54442d18p-1));
  const W base_low = fma(eighths, like(zero, 0x1.1a62633145c07p-55), base.low);
  const auto angle = fast_two_sum(base.high, direction * ratio.high);
  return angle.high + (angle.low + fma(direction, tail, base_low));
}

}  // namespace parts

template <typename W>
W asin(const W& x) {
  const W one = like(x, 1.0);
  const W a = parts::magnitude(x);
  const W inner = select(a < one, a, one);
  const W angle = parts::angle_on_circle<W>({inner, like(x, 0.0)}, parts::other_side(inner),
                                            one < like(x, 0.0));
  const W result = parts::with_sign_of(select(a > one, like(x, parts::kNan), angle), x);
  return select((a < like(x, 0x1p-28)) | (x != x), x, result);
}

template <typename W>
W acos(const W& x) {
  const W one = like(x, 1.0);
  const W a = parts::magnitude(x);
  const W inner = select(a < one, a, one);
  const W angle =
      parts::angle_on_circle<W>(parts::other_side(inner), {inner, like(x, 0.0)}, x < like(x, 0.0));
  const W defined = select(a > one, like(x, parts::kNan), angle);
  return select(x != x, x, defined);
}

template <typename W>
W atan(const W& x) {
  return f64::atan2(x, like(x, 1.0));
}

}  // namespace plimsoll::math::f64
