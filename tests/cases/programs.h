// SPDX-License-Identifier: Apache-2.0
#pragma once

// HLO text that several tests run.
namespace plimsoll::cases {

// In this order `a` and `b` both wait while `big` is there.
inline constexpr char kTwoWaitForOne[] = R"(
HloModule m, is_scheduled=true
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[1024] parameter(0)
  a = f32[1024] tanh(p)
  b = f32[1024] cosine(p)
  product = f32[1024] multiply(a, b)
  zero = f32[] constant(0)
  m = f32[] reduce(product, zero), dimensions={0}, to_apply=sum
  big = f32[4096] broadcast(m), dimensions={}
  r = f32[] reduce(big, zero), dimensions={0}, to_apply=sum
  wide = f32[1024] broadcast(r), dimensions={}
  left = f32[1024] subtract(a, wide)
  right = f32[1024] add(b, wide)
  quotient = f32[1024] divide(left, right)
  ROOT out = f32[] reduce(quotient, zero), dimensions={0}, to_apply=sum
})";

// A module without its entry: `body` and `condition` of a loop of three rounds over (s32[],
// f32[512]), four elementwise ops a round.
inline constexpr char kLoopOfThree[] = R"(
HloModule m, is_scheduled=true
body { s = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[512] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[512] sine(x)
  b = f32[512] exponential(a)
  c = f32[512] cosine(b)
  d = f32[512] multiply(c, a)
  ROOT t = (s32[], f32[512]) tuple(j, d) }
condition { s = (s32[], f32[512]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT p = pred[] compare(i, n), direction=LT }
)";

}  // namespace plimsoll::cases
