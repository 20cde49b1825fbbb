// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/parts.h"
#include "runtime/base/math/piecewise.h"

// exp, expm1, logistic, tanh, erf for any f32 value type (scalar.h). Errors are in
// docs/numerics.md.
namespace plimsoll::math {

template <typename V>
V exp(const V& x) {
  return parts::exp(x);
}

template <typename V>
V expm1(const V& x) {
  static constexpr float kSeries[] = {0x1.555556p-3f, 0x1.5554f2p-5f, 0x1.1110a2p-7f,
                                      0x1.6d4112p-10f, 0x1.a18b7ep-13f};
  const auto exponent = parts::reduce_exponent(parts::clamped(x, -20.0f, 89.0f));
  const auto& r = exponent.r;
  // e^r - 1 = r + r^2/2 + ..., of which the first two are kept as a pair.
  const auto square = two_product(r.high, r.high);
  const V half = like(x, 0.5f);
  const auto sum = fast_two_sum(r.high, square.high * half);
  const V rest =
      fma(square.high * r.high, parts::horner(r.high, kSeries), fma(square.low, half, r.low)) +
      sum.low;
  // Half of the result, which does not overflow before it: 2^(n-1) * (1 + sum + rest) - 1/2.
  const auto bits = bits_of(exponent.shifted);
  const V scale = from_bits((bits << 23) + like(bits, std::int32_t{0x3f000000}));
  const auto shifted = fast_two_sum(scale, -half);
  const auto result = two_sum(shifted.high, scale * sum.high);
  const V low = fma(scale, rest, result.low + shifted.low);
  const V value = (result.high + low) * like(x, 2.0f);
  return select(parts::magnitude(x) < like(x, 0x1p-30f), x, value);
}

template <typename V>
V logistic(const V& x) {
  // With z = e^-|x|, which cannot overflow: z / (1 + z), or one less that.
  const V one = like(x, 1.0f);
  const auto exponent = parts::reduce_exponent(-parts::at_most(parts::magnitude(x), 104.0f));
  const V& r = exponent.r.high;
  // z = 2^n * (power.high + power.low)
  const V rest = fma(r * r, parts::horner(r, parts::kExpSeries), exponent.r.low);
  const auto power = fast_two_sum(one, r + rest);
  const V scale = parts::zero_up_to(exponent.n, -150.0f, times_power(one, exponent.n));
  const auto sum = fast_two_sum(one, power.high * scale);
  const V part = quotient<V>(power, {sum.high, fma(power.low, scale, sum.low)}) * scale;
  return select(!(x < like(x, 0.0f)), one - part, part);
}

// |x| + |x| q below 1, 1 + q beyond, with a polynomial q for each of 16 ranges of |x|.
template <typename V>
V tanh(const V& x) {
  const V a = parts::at_most(parts::magnitude(x), 9.5f);
  // Four ranges from power to power of two: each is named by two bits of the exponent and two of
  // the fraction of |x| + 3/4, and ends where the lower bits do.
  const V moved = a + like(x, 0.75f);
  const auto bits = bits_of(moved);
  const auto middle = (bits & like(bits, -0x200000)) | like(bits, 0x100000);
  const V q = parts::piecewise(parts::kTanh, bits >> 21, a - (from_bits(middle) - like(x, 0.75f)));
  const V base = select(moved < like(x, 1.75f), a, like(x, 1.0f));
  return parts::with_sign_of(fma(base, q, base), x);
}

// As tanh, with ranges of equal length.
template <typename V>
V erf(const V& x) {
  constexpr float kLength = 0.2578125f;
  const V a = parts::at_most(parts::magnitude(x), 3.9921875f);
  const V shifted = fma(a, like(x, 1 / kLength), like(x, parts::kRounder));
  const V range = shifted - like(x, parts::kRounder);
  const V q = parts::piecewise(parts::kErf, bits_of(shifted), fma(range, like(x, -kLength), a));
  const V base = select(range < like(x, 3.5f), a, like(x, 1.0f));
  return parts::with_sign_of(fma(base, q, base), x);
}

}  // namespace plimsoll::math
