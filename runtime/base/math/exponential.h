// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/parts.h"

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
  const V scale = parts::power_of_two(exponent.n - like(exponent.n, std::int32_t{1}));
  const auto shifted = fast_two_sum(scale, -half);
  const auto result = two_sum(shifted.high, scale * sum.high);
  const V low = fma(scale, rest, result.low + shifted.low);
  const V value = (result.high + low) * like(x, 2.0f);
  return select(parts::magnitude(x) < like(x, 0x1p-30f), x, value);
}

template <typename V>
V logistic(const V& x) {
  // With e = exp(-|x|), which cannot overflow: 1 / (1 + e), or e / (1 + e) for negative x.
  const auto exponent = parts::reduce_exponent(parts::clamped(-parts::magnitude(x), -104.0f, 0.0f));
  const auto power = parts::exp_near_zero(exponent.r);
  const V one = like(x, 1.0f);
  const V zero = like(x, 0.0f);
  const auto sum = fast_two_sum(one, parts::scaled(power.high, exponent.n));
  const auto negative = x < zero;
  const V result =
      quotient<V>({select(negative, power.high, one), select(negative, power.low, zero)},
                  {sum.high, sum.low + parts::scaled(power.low, exponent.n)});
  return select(negative, parts::scaled(result, exponent.n), result);
}

template <typename V>
V tanh(const V& x) {
  static constexpr float kSeries[] = {-0x1.555552p-2f,  0x1.11103ap-3f,  -0x1.b9f65cp-5f,
                                      0x1.64bac2p-6f,   -0x1.18be24p-7f, 0x1.8ee6aap-9f,
                                      -0x1.acde1cp-11f, 0x1.e3de4ep-14f};
  const V a = parts::magnitude(x);
  const V square = a * a;
  const V near = fma(a * square, parts::horner(square, kSeries), a);
  const V one = like(x, 1.0f);
  const V far = one - like(x, 2.0f) / (parts::exp(a + a) + one);
  return parts::with_sign_of(select(a < one, near, far), x);
}

template <typename V>
V erf(const V& x) {
  static constexpr float kNear[] = {0x1.06eba8p-3f,  -0x1.812746p-2f, 0x1.ce2ef4p-4f,
                                    -0x1.b827b4p-6f, 0x1.5611aap-8f,  -0x1.bba4d8p-11f,
                                    0x1.d1969ap-14f, -0x1.343b9p-17f};
  static constexpr float kLost[] = {0x1.ea0f08p-31f, -0x1.5a0c1ep-30f};
  // -log(1 - erf(a)) / a - 1 on [1.045, 4], weighted by 1 - erf(a).
  static constexpr float kFar[] = {0x1.079f72p-3f,  0x1.450cd4p-1f, 0x1.b50752p-4f,
                                   -0x1.8b9842p-6f, 0x1.f4763p-9f,  -0x1.7e91a2p-12f,
                                   0x1.01204ep-16f};
  const V a = parts::clamped(parts::magnitude(x), 0.0f, 4.0f);
  const V near = odd_series(a, kNear, kLost);
  const V series = parts::horner(a, kFar);
  const V exponent = fma(a, series, a);
  const V lost = fma(a, series, a - exponent);
  const V far = like(x, 1.0f) - parts::exp_of_pair(-exponent, -lost);
  return parts::with_sign_of(select(a < like(x, 1.05f), near, far), x);
}

}  // namespace plimsoll::math
