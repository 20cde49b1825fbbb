// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/math/binary.h"
#include "runtime/base/math/piecewise.h"

// Pieces shared by the functions of bf16 and of f16 numbers (bfloat16.h, float16.h).
//
// Those functions have to give what a function of f32 (transcendental.h) rounds to, and for the
// 65,536 numbers there are only. Of each number that asks for a result between two others, the
// halves of the way to the next 16-bit numbers; polynomials are found by linear programs that look
// for the greatest distance to all these bounds (Lim and Nagarakatte, "High performance correctly
// rounded math libraries for 32-bit floating point representations", PLDI 2021), and their last
// places by trying until all the numbers have their result (tests/base/small_math_test.cc).
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
