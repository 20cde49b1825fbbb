// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/binary.h"
#include "runtime/base/math/piecewise.h"

// Pieces shared by the functions of bf16 and of f16 numbers (bfloat16.h, float16.h).
//
// Such a function has to give what the function of f32 rounds to, and has only 65,536 arguments.
// Each of them asks for a result between two bounds, half-way to the neighbours of the rounded one.
// The coefficients are those that keep farthest from all bounds (a linear program; Lim and
// Nagarakatte, "High performance correctly rounded math libraries for 32-bit floating point
// representations", PLDI 2021), with last places changed at random until rounding on the way did no
// harm either. A test goes through all arguments (tests/base/small_math_test.cc).
namespace plimsoll::math::parts {

inline constexpr float kLog2E = 0x1.715476p0f, kLn2 = 0x1.62e43p-1f;

// 2^t, by a polynomial in the fraction of t.
template <typename V, int N>
V two_to(const V& t, const float (&series)[N]) {
  return times_power_of_floor(horner(fraction(t), series), t);
}

// An odd function that is constant from `most` on, by a polynomial in |x| for each of 16 ranges
// whose middles are i / scale.
template <typename V, int N>
V odd_piecewise(const V& x, float most, float scale, const float (&ranges)[N][16]) {
  const V a = at_most(magnitude(x), most);
  const auto range = bits_of(fma(a, like(x, scale), like(x, kRounder)));
  return with_sign_of(piecewise(ranges, range, a), x);
}

}  // namespace plimsoll::math::parts
