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
  const V a = parts::magnitude(x);
  const auto tiny = a < like(x, parts::kSmallestNormal);
  const V normal = select(tiny, a * like(x, 0x1p24f), a);
  // A third of the exponent by bits (1/3 = 1/4 + 1/16 + ...), then Halley's iteration twice.
  const auto bits = bits_of(normal);
  auto third = (bits >> 2) + (bits >> 4);
  third = third + (third >> 4);
  third = third + (third >> 8);
  const auto target = widen(normal);
  auto root = widen(from_bits(third + like(bits, std::int32_t{0x2a5137a0})));
  for (int i = 0; i < 2; ++i) {
    const auto cube = root * root * root;
    root = root * ((cube + (target + target)) / ((cube + cube) + target));
  }
  root = select(tiny, root * like(root, 0x1p-8), root);
  const V result = parts::with_sign_of(narrow(root), x);
  const auto keep = (x == like(x, 0.0f)) | (a == like(x, parts::kInfinity)) | (x != x);
  return select(keep, x, result);
}

// C's pow: exp2(y * log2(|x|)) in f64 with the sign of an odd integral y.
template <typename V>
V pow(const V& x, const V& y) {
  static constexpr double kSeries[] = {
      0x1.62e42fefa3a26p-1, 0x1.ebfbdff81b1ep-3,   0x1.c6b08d70387bep-5,
      0x1.3b2ab72552f43p-7, 0x1.5d87fea6ddc2p-10,  0x1.430895a0e67acp-13,
      0x1.ffcb38b9966dp-17, 0x1.63e929c9f3542p-20, 0x1.b68f543d585d5p-24};
  const V zero = like(x, 0.0f);
  const V one = like(x, 1.0f);
  const V a = parts::magnitude(x);
  const auto tiny = a < like(x, parts::kSmallestNormal);
  const V normal = select(tiny, a * like(x, 0x1p23f), a);
  const auto bits = bits_of(normal);
  const auto exponent_bits =
      (bits - like(bits, std::int32_t{0x3f3504f3})) & like(bits, std::int32_t{-0x800000});
  const auto mantissa = widen(from_bits(bits - exponent_bits));
  const auto wide_one = like(mantissa, 1.0);
  const V exponent = to_float(exponent_bits >> 23) - select(tiny, like(x, 23.0f), zero);
  auto log2 = fma(parts::wide_log_one_plus(mantissa - wide_one),
                  like(mantissa, 0x1.71547652b82fep+0), widen(exponent));
  const auto infinity = like(mantissa, double{parts::kInfinity});
  log2 = select(a == zero, -infinity, log2);
  log2 = select(a == like(x, parts::kInfinity), infinity, log2);

  const auto wide_y = widen(y);
  auto power = wide_y * log2;
  // 0 * infinity below is not pow's: 1 to any power and anything to the power 0 are 1.
  power = select((a == one) | (y == zero), like(mantissa, 0.0), power);
  const auto limit = like(mantissa, 200.0);
  power = select(power > limit, limit, power);
  power = select(power < -limit, -limit, power);
  const auto whole = round_even(power);
  const auto fraction = power - whole;
  const auto scale = parts::wide_power_of_two(parts::integer_of(narrow(whole)));
  V result = narrow(fma(fraction * scale, parts::horner(fraction, kSeries), scale));

  const auto half_y = wide_y * like(wide_y, 0.5);
  const auto integral = round_even(wide_y) == wide_y;
  const auto odd = integral & !(round_even(half_y) == half_y);
  const auto x_bits = bits_of(x);
  const auto negative = x_bits < like(x_bits, 0);
  result = select(negative & odd, -result, result);
  const auto undefined = (x < zero) & (a < like(x, parts::kInfinity)) & !integral;
  result = select(undefined, like(x, parts::kNan), result);
  result = select((x != x) | (y != y), x + y, result);
  return select((x == one) | (y == zero), one, result);
}

}  // namespace plimsoll::math
