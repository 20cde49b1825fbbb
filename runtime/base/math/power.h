// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/parts.h"

// rsqrt, cbrt and pow for any f32 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math {

template <typename V>
V rsqrt(const V& x) {
  const V first = like(x, 1.0f) / sqrt(x);
  // One Newton step, where its products are finite.
  const auto product = two_product(x, first);
  const V rest = fma(-first, product.low, fma(-first, product.high, like(x, 1.0f)));
  const V result = fma(first * like(x, 0.5f), rest, first);
  return select((x == like(x, 0.0f)) | (x == like(x, parts::kInfinity)), first, result);
}

template <typename V>
V cbrt(const V& x) {
  const V magnitude = parts::magnitude(x);
  const V one = like(x, 1.0f);
  // Away from where the products below leave the exponents.
  const auto tiny = magnitude < like(x, 0x1p-60f);
  const auto huge = magnitude > like(x, 0x1p+100f);
  const V scale = select(tiny, like(x, 0x1p+90f), select(huge, like(x, 0x1p-60f), one));
  const V back = select(tiny, like(x, 0x1p-30f), select(huge, like(x, 0x1p+20f), one));
  const V a = magnitude * scale;
  // A third of the exponent by bits (1/3 = 1/4 + 1/16 + ...) gives 1 / cbrt(a) to a few percent;
  // two Newton steps of third order bring it to the last places.
  const auto bits = bits_of(a);
  auto third = (bits >> 2) + (bits >> 4);
  third = third + (third >> 4);
  third = third + (third >> 8);
  V inverse = from_bits(like(bits, std::int32_t{0x54a21d2a}) - third);
  for (int i = 0; i < 2; ++i) {
    const V rest = fma(-(a * inverse), inverse * inverse, one);
    const V step = fma(rest, like(x, 0x1.c71c72p-3f), like(x, 0x1.555556p-2f));
    inverse = fma(inverse * rest, step, inverse);
  }
  const V square_inverse = inverse * inverse;
  const V root = a * square_inverse;
  const auto square = two_product(root, root);
  const auto cube = two_product(square.high, root);
  const V rest = (a - cube.high) - fma(square.low, root, cube.low);
  const V result = fma(rest * like(x, 0x1.555556p-2f), square_inverse, root) * back;
  const auto keep = (x == like(x, 0.0f)) | (magnitude == like(x, parts::kInfinity)) | (x != x);
  return select(keep, x, parts::with_sign_of(result, x));
}

// C's pow: exp2(y * log2(|x|)) in f64 with the sign of an odd integral y.
template <typename V>
V pow(const V& x, const V& y) {
  static constexpr double kLog[] = {0x1.555555561e72p-2, 0x1.999996a8adb26p-3, 0x1.24941239a514cp-3,
                                    0x1.c62af907b9fdcp-4, 0x1.91174276e14dap-4};
  static constexpr double kExp[] = {
      0x1.62e42fef7a7e8p-1,  0x1.ebfbe07ada056p-3,  0x1.c6b08df659474p-5, 0x1.3b29f0d87d995p-7,
      0x1.5d8721db135bfp-10, 0x1.445e8c72b1066p-13, 0x1.00f220d7e5562p-16};
  const V zero = like(x, 0.0f);
  const V one = like(x, 1.0f);
  const V infinity = like(x, parts::kInfinity);
  const V a = parts::magnitude(x);
  const auto tiny = a < like(x, parts::kSmallestNormal);
  const V normal = select(tiny, a * like(x, 0x1p23f), a);
  const auto bits = bits_of(normal);
  // 0x3f3504f3 is sqrt(1/2): the mantissa goes to [0.7, 1.42].
  const auto exponent_bits =
      (bits - like(bits, std::int32_t{0x3f3504f3})) & like(bits, std::int32_t{-0x800000});
  const auto f = widen(from_bits(bits - exponent_bits) - one);
  const V exponent = to_float(exponent_bits >> 23) - select(tiny, like(x, 23.0f), zero);
  // log(1+f) = 2 atanh(s) with s = f / (2 + f).
  const auto s = f / (like(f, 2.0) + f);
  const auto square = s * s;
  const auto log = fma(s * square, parts::horner(square, kLog), s);
  const auto log2 = fma(log, like(f, 0x1.71547652b82fep+1), widen(exponent));
  // Where |y| is 2^60 or more, only whether |x| is above, below or at 1 counts.
  auto power = widen(parts::clamped(y, -0x1p60f, 0x1p60f)) * log2;
  // From 2^-151 down f32 has zero.
  constexpr double kLowest = -151;
  const auto whole_power = power;
  power = parts::clamped_to_zero(power, kLowest, 200.0);
  // Adding 1.5 * 2^52 rounds to an integer that stands in the low bits.
  const auto shifted = power + like(f, 0x1.8p52);
  const auto fraction = power - (shifted - like(f, 0x1.8p52));
  const auto scale_bits = bits_of(shifted) << 52;
  const auto scale = from_bits(scale_bits + bits_of(like(f, 1.0)));
  V result = narrow(parts::zero_up_to(whole_power, kLowest,
                                      fma(fraction * scale, parts::horner(fraction, kExp), scale)));

  const auto positive_y = y > zero;
  result = select(a == zero, select(positive_y, zero, infinity), result);
  result = select(a == infinity, select(positive_y, infinity, zero), result);
  const V half_y = y * like(y, 0.5f);
  const auto integral = round_even(y) == y;
  const auto odd = integral & !(round_even(half_y) == half_y);
  const auto x_bits = bits_of(x);
  const auto negative = x_bits < like(x_bits, 0);
  result = select(negative & odd, -result, result);
  const auto undefined = (x < zero) & (a < infinity) & !integral;
  result = select(undefined, like(x, parts::kNan), result);
  result = select((x != x) | (y != y), x + y, result);
  return select((x == one) | (y == zero), one, result);
}

}  // namespace plimsoll::math
