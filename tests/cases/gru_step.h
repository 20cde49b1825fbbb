// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plimsoll::cases {

// A training step of a gated recurrent network as a scan and its gradient come from a front end: a
// loop over `rounds` inputs stacks three residuals of f32[batch,width], a second loop reads them
// from the last to the first, indices brought into range by a select. Parameters: inputs, first
// state, four weights (donated); results: the new weights and the loss.
inline std::string gru_step(int rounds, int batch, int width) {
  std::string text = R"(
HloModule gru, input_output_alias={ {0}: (2, {}), {1}: (3, {}), {2}: (4, {}), {3}: (5, {}) }
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
condition { s = FORWARD parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(ROUNDS)
  ROOT less = pred[] compare(i, n), direction=LT }
forward { s = FORWARD parameter(0)
  i = s32[] get-tuple-element(s), index=0
  h = SLICE get-tuple-element(s), index=1
  hs = STACK get-tuple-element(s), index=2
  cs = STACK get-tuple-element(s), index=3
  zs = STACK get-tuple-element(s), index=4
  xs = INPUTS get-tuple-element(s), index=5
  wc = INWEIGHT get-tuple-element(s), index=6
  uc = WEIGHT get-tuple-element(s), index=7
  wz = INWEIGHT get-tuple-element(s), index=8
  uz = WEIGHT get-tuple-element(s), index=9
  zero = s32[] constant(0)
  one = s32[] constant(1)
  n = s32[] constant(ROUNDS)
  next = s32[] add(i, one)
  negative = pred[] compare(i, zero), direction=LT
  wrapped = s32[] add(i, n)
  at = s32[] select(negative, wrapped, i)
  x1 = f32[1,BATCH,16] dynamic-slice(xs, at, zero, zero), dynamic_slice_sizes={1,BATCH,16}
  x = f32[BATCH,16] reshape(x1)
  xc = SLICE dot(x, wc), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  hc = SLICE dot(h, uc), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c0 = SLICE add(xc, hc)
  c = SLICE tanh(c0)
  xz = SLICE dot(x, wz), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  hz = SLICE dot(h, uz), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z0 = SLICE add(xz, hz)
  z = SLICE logistic(z0)
  difference = SLICE subtract(h, c)
  change = SLICE multiply(z, difference)
  out = SLICE add(c, change)
  h1 = f32[1,BATCH,WIDTH] reshape(h)
  c1 = f32[1,BATCH,WIDTH] reshape(c)
  z1 = f32[1,BATCH,WIDTH] reshape(z)
  hs2 = STACK dynamic-update-slice(hs, h1, at, zero, zero)
  cs2 = STACK dynamic-update-slice(cs, c1, at, zero, zero)
  zs2 = STACK dynamic-update-slice(zs, z1, at, zero, zero)
  ROOT t = FORWARD tuple(next, out, hs2, cs2, zs2, xs, wc, uc, wz, uz) }
condition2 { s = BACKWARD parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(ROUNDS)
  ROOT less = pred[] compare(i, n), direction=LT }
backward { s = BACKWARD parameter(0)
  i = s32[] get-tuple-element(s), index=0
  d = SLICE get-tuple-element(s), index=1
  hs = STACK get-tuple-element(s), index=2
  cs = STACK get-tuple-element(s), index=3
  zs = STACK get-tuple-element(s), index=4
  xs = INPUTS get-tuple-element(s), index=5
  uc = WEIGHT get-tuple-element(s), index=6
  uz = WEIGHT get-tuple-element(s), index=7
  dwc = INWEIGHT get-tuple-element(s), index=8
  duc = WEIGHT get-tuple-element(s), index=9
  dwz = INWEIGHT get-tuple-element(s), index=10
  duz = WEIGHT get-tuple-element(s), index=11
  zero = s32[] constant(0)
  one = s32[] constant(1)
  n = s32[] constant(ROUNDS)
  last = s32[] constant(LAST)
  next = s32[] add(i, one)
  back = s32[] subtract(last, i)
  negative = pred[] compare(back, zero), direction=LT
  wrapped = s32[] add(back, n)
  at = s32[] select(negative, wrapped, back)
  x1 = f32[1,BATCH,16] dynamic-slice(xs, at, zero, zero), dynamic_slice_sizes={1,BATCH,16}
  x = f32[BATCH,16] reshape(x1)
  h1 = f32[1,BATCH,WIDTH] dynamic-slice(hs, at, zero, zero), dynamic_slice_sizes={1,BATCH,WIDTH}
  h = SLICE reshape(h1)
  c1 = f32[1,BATCH,WIDTH] dynamic-slice(cs, at, zero, zero), dynamic_slice_sizes={1,BATCH,WIDTH}
  c = SLICE reshape(c1)
  z1 = f32[1,BATCH,WIDTH] dynamic-slice(zs, at, zero, zero), dynamic_slice_sizes={1,BATCH,WIDTH}
  z = SLICE reshape(z1)
  ones1 = f32[] constant(1)
  ones = SLICE broadcast(ones1), dimensions={}
  rest = SLICE subtract(ones, z)
  difference = SLICE subtract(h, c)
  dz1 = SLICE multiply(d, difference)
  dz2 = SLICE multiply(dz1, z)
  dz = SLICE multiply(dz2, rest)
  dc1 = SLICE multiply(d, rest)
  cc = SLICE multiply(c, c)
  slope = SLICE subtract(ones, cc)
  dc = SLICE multiply(dc1, slope)
  dh1 = SLICE multiply(d, z)
  dh2 = SLICE dot(dc, uc), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dh3 = SLICE dot(dz, uz), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dh4 = SLICE add(dh1, dh2)
  dh = SLICE add(dh4, dh3)
  gwc = INWEIGHT dot(x, dc), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  guc = WEIGHT dot(h, dc), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gwz = INWEIGHT dot(x, dz), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  guz = WEIGHT dot(h, dz), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dwc2 = INWEIGHT add(dwc, gwc)
  duc2 = WEIGHT add(duc, guc)
  dwz2 = INWEIGHT add(dwz, gwz)
  duz2 = WEIGHT add(duz, guz)
  ROOT t = BACKWARD tuple(next, dh, hs, cs, zs, xs, uc, uz, dwc2, duc2, dwz2, duz2) }
ENTRY step {
  xs = INPUTS parameter(0)
  h = SLICE parameter(1)
  wc = INWEIGHT parameter(2)
  uc = WEIGHT parameter(3)
  wz = INWEIGHT parameter(4)
  uz = WEIGHT parameter(5)
  i = s32[] constant(0)
  nothing = f32[] constant(0)
  empty = STACK broadcast(nothing), dimensions={}
  start = FORWARD tuple(i, h, empty, empty, empty, xs, wc, uc, wz, uz)
  scan = FORWARD while(start), condition=condition, body=forward
  out = SLICE get-tuple-element(scan), index=1
  hs = STACK get-tuple-element(scan), index=2
  cs = STACK get-tuple-element(scan), index=3
  zs = STACK get-tuple-element(scan), index=4
  square = SLICE multiply(out, out)
  loss = f32[] reduce(square, nothing), dimensions={0,1}, to_apply=sum
  d = SLICE add(out, out)
  no_in = INWEIGHT broadcast(nothing), dimensions={}
  no = WEIGHT broadcast(nothing), dimensions={}
  start2 = BACKWARD tuple(i, d, hs, cs, zs, xs, uc, uz, no_in, no, no_in, no)
  gradient = BACKWARD while(start2), condition=condition2, body=backward
  dwc = INWEIGHT get-tuple-element(gradient), index=8
  duc = WEIGHT get-tuple-element(gradient), index=9
  dwz = INWEIGHT get-tuple-element(gradient), index=10
  duz = WEIGHT get-tuple-element(gradient), index=11
  rate = f32[] constant(0.0001)
  rate_in = INWEIGHT broadcast(rate), dimensions={}
  rates = WEIGHT broadcast(rate), dimensions={}
  lwc = INWEIGHT multiply(dwc, rate_in)
  luc = WEIGHT multiply(duc, rates)
  lwz = INWEIGHT multiply(dwz, rate_in)
  luz = WEIGHT multiply(duz, rates)
  wc2 = INWEIGHT subtract(wc, lwc)
  uc2 = WEIGHT subtract(uc, luc)
  wz2 = INWEIGHT subtract(wz, lwz)
  uz2 = WEIGHT subtract(uz, luz)
  ROOT t = (INWEIGHT, WEIGHT, INWEIGHT, WEIGHT, f32[]) tuple(wc2, uc2, wz2, uz2, loss) }
)";
  // The longer words stand for the shorter ones.
  const std::vector<std::pair<std::string, std::string>> words = {
      {"FORWARD",
       "(s32[], SLICE, STACK, STACK, STACK, INPUTS, INWEIGHT, WEIGHT, INWEIGHT, WEIGHT)"},
      {"BACKWARD",
       "(s32[], SLICE, STACK, STACK, STACK, INPUTS, WEIGHT, WEIGHT, INWEIGHT, WEIGHT, INWEIGHT, "
       "WEIGHT)"},
      {"STACK", "f32[ROUNDS,BATCH,WIDTH]"},
      {"SLICE", "f32[BATCH,WIDTH]"},
      {"INPUTS", "f32[ROUNDS,BATCH,16]"},
      {"INWEIGHT", "f32[16,WIDTH]"},
      {"WEIGHT", "f32[WIDTH,WIDTH]"},
      {"ROUNDS", std::to_string(rounds)},
      {"LAST", std::to_string(rounds - 1)},
      {"BATCH", std::to_string(batch)},
      {"WIDTH", std::to_string(width)}};
  for (const auto& [word, meaning] : words) {
    for (std::size_t at = text.find(word); at != std::string::npos;
         at = text.find(word, at + meaning.size())) {
      text.replace(at, word.size(), meaning);
    }
  }
  return text;
}

}  // namespace plimsoll::cases
