// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/logarithm64.h"
#include "runtime/base/math/pair.h"
#include "runtime/base/math/parts64.h"

// sinh, cosh, asinh, acosh, atanh for any f64 value type (scalar.h); f32 goes through them. Errors
// are in docs/numerics.md.
namespace plimsoll::math::f64 {
namespace parts {

// From here on e^-a is less than half of the last place of e^a; up to here e^a / 2 does not
// overflow.
inline constexpr double kOneSided = 40;

// e^a / 2 for a >= 0, infinite only where it overflows itself.
template <typename W>
W half_exp(const W& a) {
  const auto exponent = reduce_exponent(clamped(a, 0.0, 712.0));
  return scaled(exp_near_zero(exponent.r).high, exponent.n - like(exponent.n, std::int64_t{1}));
}

// e^a / 2 for 0 <= a <= kOneSided.
template <typename W>
Pair<W> half_exp_pair(const W& a) {
  const auto exponent = reduce_exponent(a);
  const Pair<W> power = exp_near_zero(exponent.r);
  const W scale = power_of_two(exponent.n - like(exponent.n, std::int64_t{1}));
  return {power.high * scale, power.low * scale};
}

// log(2^doublings * (x.high + x.low)), x.high >= 1, for `doublings` of 0 or 1; x.low is below a few
// last places of x.high.
template <typename W>
W log_of_pair(const Pair<W>& x, const W& doublings) {
  const auto parts = split(x.high);
  // Of a huge x nothing of x.low counts.
  const auto most = like(parts.exponent, std::int64_t{1000});
  const auto capped = select(most < parts.exponent, most, parts.exponent);
  const W low = x.low * power_of_two(like(capped, std::int64_t{0}) - capped);
  const Pair<W> f = two_sum(parts.f, low);
  return log_of_parts(to_double(x.high, parts.exponent) + doublings, f.high, f.low);
}

}  // namespace parts

template <typename W>
W sinh(const W& x) {
  const W a = parts::magnitude(x);
  const auto far = a > like(x, parts::kOneSided);
  // With h = (e^a - 1) / 2: h + h / (1 + 2h).
  const Pair<W> h = parts::half_expm1(parts::clamped(a, 0.0, parts::kOneSided));
  const Pair<W> whole = two_sum(like(x, 1.0), h.high + h.high);
  const Pair<W> rest = divide<W>(h, {whole.high, whole.low + (h.low + h.low)});
  const Pair<W> sum = fast_two_sum(h.high, rest.high);
  const W near = sum.high + (sum.low + (h.low + rest.low));
  const W result = parts::with_sign_of(select(far, parts::half_exp(a), near), x);
  return select(a < like(x, 0x1p-28), x, result);
}

template <typename W>
W cosh(const W& x) {
  const W a = parts::magnitude(x);
  const auto far = a > like(x, parts::kOneSided);
  // With h = e^a / 2: h + 1 / (4h).
  const Pair<W> h = parts::half_exp_pair(parts::clamped(a, 0.0, parts::kOneSided));
  const Pair<W> rest = divide<W>({like(x, 0.25), like(x, 0.0)}, h);
  const Pair<W> sum = fast_two_sum(h.high, rest.high);
  const W near = sum.high + (sum.low + (h.low + rest.low));
  return select(far, parts::half_exp(a), near);
}

template <typename W>
W asinh(const W& x) {
  const W a = parts::magnitude(x);
  const W zero = like(x, 0.0);
  // log(a + sqrt(a^2 + 1)), which is log(2a) for large a.
  const auto far = a > like(x, 0x1p30);
  const W inner = select(far, zero, a);
  const Pair<W> square = two_product(inner, inner);
  const Pair<W> sum = two_sum(like(x, 1.0), square.high);
  const Pair<W> root = sqrt_of_pair<W>({sum.high, sum.low + square.low});
  const Pair<W> total = two_sum(root.high, inner);
  const W one_for_far = select(far, like(x, 1.0), zero);
  const W result = parts::log_of_pair<W>(
      {select(far, a, total.high), select(far, zero, total.low + root.low)}, one_for_far);
  // Infinities, NaN and what is so small that its cube does not count stay.
  const auto keep = (a == like(x, parts::kInfinity)) | (x != x) | (a < like(x, 0x1p-28));
  return select(keep, x, parts::with_sign_of(result, x));
}

template <typename W>
W acosh(const W& x) {
  const W zero = like(x, 0.0);
  const W one = like(x, 1.0);
  // log(x + sqrt(x^2 - 1)), which is log(2x) for large x.
  const auto far = x > like(x, 0x1p30);
  const W inner = select(far, one, x);
  const Pair<W> square = two_product(inner, inner);
  const Pair<W> difference = two_sum(square.high, -one);
  const Pair<W> root = sqrt_of_pair<W>(fast_two_sum(difference.high, difference.low + square.low));
  const Pair<W> total = two_sum(inner, root.high);
  const W result =
      parts::log_of_pair<W>({select(far, x, total.high), select(far, zero, total.low + root.low)},
                            select(far, one, zero));
  const W defined = select(x < one, like(x, parts::kNan), result);
  return select(x < like(x, parts::kInfinity), defined, x);
}

template <typename W>
W atanh(const W& x) {
  const W one = like(x, 1.0);
  const W a = parts::magnitude(x);
  // Half of log((1 + a) / (1 - a)).
  const W inner = select(a < one, a, like(x, 0.0));
  const Pair<W> ratio = divide(two_sum(one, inner), two_sum(one, -inner));
  const W result = parts::log_of_pair(ratio, like(x, 0.0)) * like(x, 0.5);
  const W pole = select(a == one, like(x, parts::kInfinity), like(x, parts::kNan));
  const W defined = select(a < one, result, pole);
  return select(a < like(x, 0x1p-28), x, parts::with_sign_of(defined, x));
}

}  // namespace plimsoll::math::f64
