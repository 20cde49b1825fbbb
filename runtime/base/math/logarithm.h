// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/parts.h"

// log and log1p for any f32 value type (scalar.h). Errors are in docs/numerics.md.
namespace plimsoll::math {

template <typename V>
V log(const V& x) {
  // log(1+f) = f - f^2/2 + ... on [-1/3, 1/3].
  static constexpr float kSeries[] = {
      -0x1p-1f,       0x1.555558p-2f,  -0x1.fffe28p-3f, 0x1.99968cp-3f,  -0x1.55b1d0p-3f,
      0x1.250bc6p-3f, -0x1.f171fep-4f, 0x1.b6af3ap-4f,  -0x1.0af51ep-3f, 0x1.f22602p-4f};
  const V zero = like(x, 0.0f);
  const auto tiny = x < like(x, parts::kSmallestNormal);
  const V normal = select(tiny, x * like(x, 0x1p23f), x);
  const auto bits = bits_of(normal);
  // 0x3f2aaaab is 2/3: the mantissa goes to [2/3, 4/3).
  const auto exponent_bits =
      (bits - like(bits, std::int32_t{0x3f2aaaab})) & like(bits, std::int32_t{-0x800000});
  const V f = from_bits(bits - exponent_bits) - like(x, 1.0f);
  const V exponent = to_float(exponent_bits >> 23) - select(tiny, like(x, 23.0f), zero);
  const V mantissa_log = fma(f * f, parts::horner(f, kSeries), f);
  V result = fma(exponent, like(x, 0x1.62e43p-1f), mantissa_log);
  result = select(x == like(x, parts::kInfinity), x, result);
  result = select(x < zero, like(x, parts::kNan), result);
  result = select(x == zero, like(x, -parts::kInfinity), result);
  return select(x != x, x, result);
}

template <typename V>
V log1p(const V& x) {
  const auto wide = widen(x);
  const auto one = like(wide, 1.0);
  const auto bits = bits_of(narrow(wide + one));
  // 0x3f3504f3 is sqrt(1/2). 1 + x is scaled without ever being rounded when x is small.
  const auto exponent = (bits - like(bits, std::int32_t{0x3f3504f3})) >> 23;
  const auto scale = parts::wide_power_of_two(like(bits, 0) - exponent);
  const auto f = fma(scale, wide, scale - one);
  const V minus_one = like(x, -1.0f);
  V result = narrow(fma(widen(to_float(exponent)), like(wide, 0x1.62e42fefa39efp-1),
                        parts::wide_log_one_plus(f)));
  result = select(x == like(x, parts::kInfinity), x, result);
  result = select(x < minus_one, like(x, parts::kNan), result);
  result = select(x == minus_one, like(x, -parts::kInfinity), result);
  result = select(x == like(x, 0.0f), x, result);
  return select(x != x, x, result);
}

}  // namespace plimsoll::math
