// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts64.h"

// exp, expm1, logistic, tanh, erf for any f64 value type (scalar.h). Errors are in
// docs/numerics.md.
namespace plimsoll::math::f64 {
namespace parts {

// Half of e^x - 1, which does not overflow before it.
template <typename W>
Pair<W> half_expm1(const W& x) {
  const auto exponent = reduce_exponent(x);
  const Pair<W>& r = exponent.r;
  // e^r - 1 = r + r^2/2 + ..., of which the first two are kept as a pair.
  const auto square = two_product(r.high, r.high);
  const W half = like(x, 0.5);
  const auto sum = fast_two_sum(r.high, square.high * half);
  const W series = math::parts::horner_from(r.high, kExpm1Series, 1);
  const W rest = fma(square.high * r.high, series, fma(square.low, half, r.low)) + sum.low;
  const W scale = power_of_two(exponent.n - like(exponent.n, std::int64_t{1}));
  const auto shifted = fast_two_sum(scale, -half);
  const auto result = two_sum(shifted.high, scale * sum.high);
  return fast_two_sum(result.high, fma(scale, rest, result.low + shifted.low));
}

}  // namespace parts

template <typename W>
W exp(const W& x) {
  return parts::exp(x);
}

template <typename W>
W expm1(const W& x) {
  const W result = parts::half_expm1(parts::clamped(x, -45.0, 710.0)).high * like(x, 2.0);
  return select(parts::magnitude(x) < like(x, 0x1p-60), x, result);
}

template <typename W>
W logistic(const W& x) {
  // With e = exp(-|x|), which cannot overflow: 1 / (1 + e), or e / (1 + e) for negative x.
  const auto exponent = parts::reduce_exponent(parts::clamped(-parts::magnitude(x), -746.0, 0.0));
  // 2^n in two factors, the second one zero where e is, which takes no underflow.
  const auto& n = exponent.n;
  const W scale = parts::power_of_two(n >> 1);
  const W rest =
      select(n < like(n, std::int64_t{-1075}), like(x, 0.0), parts::power_of_two(n - (n >> 1)));
  const auto power = parts::exp_near_zero(exponent.r);
  const W one = like(x, 1.0);
  const W zero = like(x, 0.0);
  const auto sum = fast_two_sum(one, power.high * scale * rest);
  const auto negative = x < zero;
  const W result =
      quotient<W>({select(negative, power.high, one), select(negative, power.low, zero)},
                  {sum.high, sum.low + power.low * scale * rest});
  return select(negative, result * scale * rest, result);
}

template <typename W>
W tanh(const W& x) {
  const W a = parts::clamped(parts::magnitude(x), 0.0, 20.0);
  // tanh(a) = h / (h + 1) with h = (exp(2a) - 1) / 2.
  const auto half = parts::half_expm1(a + a);
  const auto sum = two_sum(like(x, 1.0), half.high);
  const W result = quotient<W>(half, {sum.high, sum.low + half.low});
  return select(a < like(x, 0x1p-60), x, parts::with_sign_of(result, x));
}

template <typename W>
W erf(const W& x) {
  static constexpr double kNear[] = {
      0x1.06eba8214db68p-3,  -0x1.812746b0379dbp-2,  0x1.ce2f21a0423adp-4,  -0x1.b82ce31264dafp-6,
      0x1.565bcd09539a9p-8,  -0x1.c02db323fc629p-11, 0x1.f9a30f09d40dfp-14, -0x1.f4d09d15937bdp-17,
      0x1.b9d061521451fp-20, -0x1.5eadb2bb70b99p-23, 0x1.f366db3abdcf6p-27, -0x1.2c8a447f763a1p-30,
      0x1.d090dcd0cb5dfp-35};
  static constexpr double kLost[] = {0x1.dbb00fcb543a9p-57, 0x1.9fd4de72d2cb5p-59};
  // -log(1 - erf(a)) / a - 1 on [1.12, 6], weighted by 1 - erf(a).
  static constexpr double kFar[] = {
      0x1.06eba90148e7cp-3,   0x1.45f301bd3c3f5p-1,   0x1.a4f622495f098p-4,
      -0x1.397bf0f78137cp-6,  -0x1.98950d514db9bp-13, 0x1.b5102888bc3bep-10,
      -0x1.1e60fcfe5b11cp-11, -0x1.b143cb9f94294p-16, 0x1.d86ea0c2643a1p-14,
      -0x1.128ab251dd6ep-14,  0x1.9aa2a1a576128p-16,  -0x1.c9db195e21fd7p-18,
      0x1.8b9d8bfe2d27ap-20,  -0x1.0a2b746154fdap-22, 0x1.12eaae1e980f4p-25,
      -0x1.a604137e02ffcp-29, 0x1.c5d612a805a34p-33,  -0x1.311fea41cba1fp-37,
      0x1.81e996b7a9117p-43};
  const W a = parts::clamped(parts::magnitude(x), 0.0, 6.0);
  const W near = odd_series(a, kNear, kLost);
  const W series = math::parts::horner(a, kFar);
  const W exponent = fma(a, series, a);
  const W lost = fma(a, series, a - exponent);
  const W far = like(x, 1.0) - parts::exp_of_pair(-exponent, -lost);
  return parts::with_sign_of(select(a < like(x, 1.125), near, far), x);
}

}  // namespace plimsoll::math::f64
