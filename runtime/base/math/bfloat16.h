// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/parts.h"

// Functions of f32 value types that hold bf16 numbers, for readers that round the result to bf16:
// they get the bf16 that the function of the same name gives (transcendental.h), for less work.
// There are 65,536 numbers, which a test goes through.
namespace plimsoll::math::bf16 {

template <typename V>
V logistic(const V& x) {
  // With z = e^-|x|, which cannot overflow: z / (1 + z), or one less that.
  const V one = like(x, 1.0f);
  const auto exponent = parts::reduce_exponent(-parts::at_most(parts::magnitude(x), 104.0f));
  const V& r = exponent.r.high;
  const V power = one + fma(r * r, parts::horner(r, parts::kExpSeries), r);
  const V z = times_power(power, exponent.n);
  const V part = z / (one + z);
  return select(x < like(x, 0.0f), part, one - part);
}

}  // namespace plimsoll::math::bf16
