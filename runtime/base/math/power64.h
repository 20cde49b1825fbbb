// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts64.h"

// rsqrt, cbrt and pow for any f64 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math::f64 {
namespace parts {

// log2(2^exponent * (1 + f)) to about 2^-66 of itself: 2 atanh(s) / ln(2) with s = f / (2 + f).
template <typename W>
Pair<W> log2_of_parts(const W& exponent, const W& f) {
  static constexpr double kSeries[] = {
      // (atanh(s) / s - 1 - s^2 / 3) / s^4
      0x1.9999999999996p-3, 0x1.249249249303ap-3, 0x1.c71c71c57fbdap-4, 0x1.745d1832a53f8p-4,
      0x1.3b13629ff1199p-4, 0x1.1120b8f6b9e01p-4, 0x1.de32e90c04f11p-5, 0x1.eb158ce98ff2p-5};
  const Pair<W> s = divide<W>({f, like(f, 0.0)}, fast_two_sum(like(f, 2.0), f));
  const Pair<W> square = multiply(s, s);
  Pair<W> series = fast_two_sum(like(f, 0x1.5555555555555p-2),
                                square.high * math::parts::horner(square.high, kSeries));
  series.low = series.low + like(f, 0x1.5555555555555p-56);
  const Pair<W> cubic = multiply(s, multiply(square, series));
  Pair<W> half_log = fast_two_sum(s.high, cubic.high);
  half_log.low = half_log.low + (s.low + cubic.low);
  const Pair<W> fraction =
      multiply<W>(half_log, {like(f, 0x1.71547652b82fep+1), like(f, 0x1.777d0ffda0d24p-55)});
  Pair<W> result = fast_two_sum(exponent, fraction.high);
  return fast_two_sum(result.high, result.low + fraction.low);
}

}  // namespace parts

template <typename W>
W rsqrt(const W& x) {
  const W first = like(x, 1.0) / sqrt(x);
  // One Newton step, where its products are finite.
  const auto product = two_product(x, first);
  const W rest = fma(-first, product.high, like(x, 1.0)) - first * product.low;
  const W result = fma(first * like(x, 0.5), rest, first);
  return select((x == like(x, 0.0)) | (x == like(x, parts::kInfinity)), first, result);
}

template <typename W>
W cbrt(const W& x) {
  const W magnitude = parts::magnitude(x);
  const W one = like(x, 1.0);
  const auto tiny = magnitude < like(x, 0x1p-700);
  const auto huge = magnitude > like(x, 0x1p+700);
  const W scale = select(tiny, like(x, 0x1p+600), select(huge, like(x, 0x1p-600), one));
  const W back = select(tiny, like(x, 0x1p-200), select(huge, like(x, 0x1p+200), one));
  const W a = magnitude * scale;
  // A third of the exponent by bits (1/3 = 1/4 + 1/16 + ...) gives 1 / cbrt(a) to a few percent;
  // two steps of third order bring it to the last places.
  const auto bits = bits_of(a);
  auto third = (bits >> 2) + (bits >> 4);
  third = third + (third >> 4);
  third = third + (third >> 8);
  third = third + (third >> 16);
  W inverse = from_bits(like(bits, std::int64_t{0x553ef0ff289dd796}) - third);
  for (int i = 0; i < 2; ++i) {
    const W rest = fma(-(a * inverse), inverse * inverse, one);
    W step = fma(rest, like(x, 0x1.2702702702702p-3), like(x, 0x1.61f9add3c0ca4p-3));
    step = fma(rest, step, like(x, 0x1.c71c71c71c71cp-3));
    step = fma(rest, step, like(x, 0x1.5555555555555p-2));
    inverse = fma(inverse * rest, step, inverse);
  }
  const W square_inverse = inverse * inverse;
  const W root = a * square_inverse;
  const auto square = two_product(root, root);
  const auto cube = two_product(square.high, root);
  const W rest = (a - cube.high) - fma(square.low, root, cube.low);
  const W result = fma(rest * like(x, 0x1.5555555555555p-2), square_inverse, root) * back;
  const auto keep = (x == like(x, 0.0)) | (magnitude == like(x, parts::kInfinity)) | (x != x);
  return select(keep, x, parts::with_sign_of(result, x));
}

// C's pow: exp2(y * log2(|x|)) in twice the precision with the sign of an odd integral y.
template <typename W>
W pow(const W& x, const W& y) {
  const W zero = like(x, 0.0);
  const W one = like(x, 1.0);
  const W a = parts::magnitude(x);
  const auto tiny = a < like(x, parts::kSmallestNormal);
  const auto split = parts::split(select(tiny, a * like(x, 0x1p54), a));
  const W exponent = parts::to_double(x, split.exponent) - select(tiny, like(x, 54.0), zero);
  const auto log2 = parts::log2_of_parts(exponent, split.f);
  // Where |y| is 2^65 or more, only whether |x| is above, below or at 1 counts.
  const W capped_y = parts::clamped(y, -0x1p65, 0x1p65);
  auto power = two_product(capped_y, log2.high);
  power.low = fma(capped_y, log2.low, power.low);
  const W limit = like(x, 1200.0);
  const auto outside = parts::magnitude(power.high) > limit;
  // From 2^-1100 down there is zero.
  constexpr double kLowest = -1100;
  const W whole_power = power.high;
  power.high = math::parts::clamped_to_zero(power.high, kLowest, 1200.0);
  power.low = select(outside, zero, power.low);
  const W shifted = power.high + like(x, parts::kRounder);
  const auto bits = bits_of(shifted);
  const auto n = bits - like(bits, parts::kRounderBits);
  const W fraction = power.high - (shifted - like(x, parts::kRounder));
  // 2^(fraction + low) = e^r.
  const W ln2 = like(x, 0x1.62e42fefa39efp-1);
  auto r = two_product(fraction, ln2);
  r.low = fma(fraction, like(x, 0x1.abc9e3b39803fp-56), fma(power.low, ln2, r.low));
  r = fast_two_sum(r.high, r.low);
  W result =
      math::parts::zero_up_to(whole_power, kLowest, parts::scaled(parts::exp_near_zero(r).high, n));

  const W infinity = like(x, parts::kInfinity);
  const auto positive_y = y > zero;
  result = select(a == zero, select(positive_y, zero, infinity), result);
  result = select(a == infinity, select(positive_y, infinity, zero), result);
  const W half_y = y * like(x, 0.5);
  const auto integral = round_even(y) == y;
  const auto odd = integral & !(round_even(half_y) == half_y);
  const auto x_bits = bits_of(x);
  result = select((x_bits < like(x_bits, std::int64_t{0})) & odd, -result, result);
  const auto undefined = (x < zero) & (a < infinity) & !integral;
  result = select(undefined, like(x, parts::kNan), result);
  result = select((x != x) | (y != y), x + y, result);
  return select((x == one) | (y == zero), one, result);
}

}  // namespace plimsoll::math::f64
