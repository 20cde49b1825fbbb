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
  static constexpr double kSeries[] = {
      0x1.fffffffff793cp-2,  0x1.555555556780dp-3,  0x1.555555739a74ap-5,  0x1.111110e07fccdp-7,
      0x1.6c164ea17cd01p-10, 0x1.a01a7e76f19b4p-13, 0x1.a159eeaab1501p-16, 0x1.71e95a9cce3a7p-19};
  const V highest = like(x, 89.0f);
  const V lowest = like(x, -50.0f);
  V clamped = select(x > highest, highest, x);
  clamped = select(clamped < lowest, lowest, clamped);
  const auto wide = widen(clamped);
  const auto count = round_even(wide * like(wide, 0x1.71547652b82fep+0));
  const auto r = fma(count, like(wide, -0x1.62e42fefa39efp-1), wide);
  const auto tail = fma(r * r, parts::horner(r, kSeries), r);
  const auto scale = parts::wide_power_of_two(parts::integer_of(narrow(count)));
  const V result = narrow(fma(scale, tail, scale - like(wide, 1.0)));
  return select(x == like(x, 0.0f), x, result);
}

template <typename V>
V logistic(const V& x) {
  // exp(-|x|) cannot overflow; the result for very negative x is then exp(x) itself.
  const V one = like(x, 1.0f);
  const V small = parts::exp(-parts::magnitude(x));
  const V numerator = select(x < like(x, 0.0f), small, one);
  // One Newton step on the quotient, with what rounding 1 + small lost.
  const V sum = one + small;
  const V lost = small - (sum - one);
  const V reciprocal = one / sum;
  const V quotient = numerator * reciprocal;
  const V rest = fma(-quotient, lost, fma(-quotient, sum, numerator));
  return fma(rest, reciprocal, quotient);
}

template <typename V>
V tanh(const V& x) {
  static constexpr float kSeries[] = {-0x1.55552ap-2f, 0x1.110536p-3f, -0x1.b7f9dp-5f,
                                      0x1.506b74p-6f, -0x1.6e060ap-8f};
  const V a = parts::magnitude(x);
  const V square = a * a;
  const V near = fma(a * square, parts::horner(square, kSeries), a);
  const V one = like(x, 1.0f);
  const V far = one - like(x, 2.0f) / (parts::exp(a + a) + one);
  const V result = parts::with_sign_of(select(a < like(x, 0.64f), near, far), x);
  return select(x != x, x, result);
}

template <typename V>
V erf(const V& x) {
  static constexpr float kNear[] = {0x1.06eba8p-3f,  -0x1.812740p-2f, 0x1.ce2d76p-4f,
                                    -0x1.b80438p-6f, 0x1.547610p-8f,  -0x1.a7f32cp-11f,
                                    0x1.56b62cp-14f};
  // -log(1 - erf(a)) on [0.92, 4].
  static constexpr float kFar[] = {-0x1.505f4ep-13f, 0x1.212298p+0f,  0x1.445fccp-1f,
                                   0x1.ba6b02p-4f,   -0x1.97e350p-6f, 0x1.09a8bep-8f,
                                   -0x1.a007bep-12f, 0x1.e07fe6p-17f, 0x1.17ef64p-21f};
  const V a = parts::magnitude(x);
  const V square = a * a;
  const V near = fma(a, parts::horner(square, kNear), a);
  const V limit = like(x, 4.0f);
  const V capped = select(a > limit, limit, a);
  const V far = like(x, 1.0f) - parts::exp(-parts::horner(capped, kFar));
  const V result = parts::with_sign_of(select(a < like(x, 0.925f), near, far), x);
  return select(x != x, x, result);
}

}  // namespace plimsoll::math
