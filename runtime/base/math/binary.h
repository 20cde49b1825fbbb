// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/parts.h"
#include "runtime/base/math/scalar.h"

// Numbers taken apart and put together as powers of two, for f32 value types (scalar.h). Each
// operation on V has a plain form here, for value types that have no instruction for it; the zeros
// of `fraction` may have either sign.
//   fraction(t)               t - floor(t), rounded once; 0 for infinities
//   times_power_of_floor(a,t) a * 2^floor(t) for any t and 1/4 < a < 4, rounded once
//   exponent(x)               floor(log2 |x|); -infinity for zeros, infinity for infinities
//   significand(x)            x / 2^exponent(x), in [1, 2), for x > 0; 1 or -1 for zeros, 1 for
//                             infinity, NaN for x < 0
//   significand_about_one(x)  the same halved from 3/2 on: in [3/4, 3/2)
namespace plimsoll::math {
namespace plain {

// Beyond, 2^t is zero or infinity; 2^-254 is a product of zeros, without an underflow.
template <typename V>
V limited(const V& t) {
  return parts::clamped(t, -254.0f, 254.0f);
}

template <typename V>
V fraction(const V& t) {
  const V inside = limited(t);
  return inside - floor(inside);
}

template <typename V>
V times_power_of_floor(const V& a, const V& t) {
  return times_power(a, floor(limited(t)));
}

// x, or where it is subnormal 2^23 x.
template <typename V>
V normal(const V& x) {
  return select(x < like(x, parts::kSmallestNormal), x * like(x, 0x1p23f), x);
}

template <typename V>
V exponent(const V& x) {
  const auto tiny = x < like(x, parts::kSmallestNormal);
  const auto bits = bits_of(normal(x)) >> 23;
  const V finite =
      to_float(bits - like(bits, std::int32_t{127})) - select(tiny, like(x, 23.0f), like(x, 0.0f));
  const V value = select(x == like(x, parts::kInfinity), x, finite);
  return select(x == like(x, 0.0f), like(x, -parts::kInfinity), value);
}

template <typename V>
V significand(const V& x) {
  const auto bits = bits_of(normal(x));
  const V value =
      from_bits((bits & like(bits, std::int32_t{0x7fffff})) | like(bits, parts::kOneBits));
  return select(x >= like(x, 0.0f), value, like(x, parts::kNan));
}

template <typename V>
V significand_about_one(const V& x) {
  const V value = significand(x);
  return select(value >= like(x, 1.5f), value * like(x, 0.5f), value);
}

}  // namespace plain

inline ScalarF32 fraction(ScalarF32 t) { return plain::fraction(t); }
inline ScalarF32 times_power_of_floor(ScalarF32 a, ScalarF32 t) {
  return plain::times_power_of_floor(a, t);
}
inline ScalarF32 exponent(ScalarF32 x) { return plain::exponent(x); }
inline ScalarF32 significand(ScalarF32 x) { return plain::significand(x); }
inline ScalarF32 significand_about_one(ScalarF32 x) { return plain::significand_about_one(x); }

}  // namespace plimsoll::math
