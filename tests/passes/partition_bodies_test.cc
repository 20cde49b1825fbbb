// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/passes/expression.h"
#include "tests/passes/partitioned.h"

namespace plimsoll::passes {
namespace {

// In a computation that is called, of a while or a conditional.
int number_inside(const ir::Module& module, Opcode opcode) {
  int found = number_of(module, opcode);
  for (const auto& one : module.entry()->instructions()) found -= one->opcode() == opcode;
  return found;
}

// A network of layers whose weights are stacked, cut by their columns and rows (of a product's
// sides), with rows of the batch by the other axis: what comes in by tiles stays so from round to
// round, and the weights' gradients of the second loop are made as tiles.
TEST(PartitionBodies, LoopsOverLayersKeepTheirTiles) {
  const auto module = on_tiles(R"(
step {
  s = (s32[], f32[4,6], f32[3,6,8], f32[3,8,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  a = f32[3,6,8] get-tuple-element(s), index=2
  b = f32[3,8,6] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  as = f32[1,6,8] dynamic-slice(a, i, zero, zero), dynamic_slice_sizes={1,6,8}
  aw = f32[6,8] reshape(as)
  bs = f32[1,8,6] dynamic-slice(b, i, zero, zero), dynamic_slice_sizes={1,8,6}
  bw = f32[8,6] reshape(bs)
  h = f32[4,8] dot(x, aw), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4,8] tanh(h)
  y = f32[4,6] dot(t, bw), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[4,6], f32[3,6,8], f32[3,8,6]) tuple(n, y, a, b)
}
more {
  s = (s32[], f32[4,6], f32[3,6,8], f32[3,8,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
  a = f32[3,6,8] parameter(1), sharding={devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  b = f32[3,8,6] parameter(2), sharding={devices=[1,2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}
  zero = s32[] constant(0)
  s = (s32[], f32[4,6], f32[3,6,8], f32[3,8,6]) tuple(zero, x, a, b)
  w = (s32[], f32[4,6], f32[3,6,8], f32[3,8,6]) while(s), condition=more, body=step
  ROOT y = f32[4,6] get-tuple-element(w), index=1, sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
}
)",
                               4);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_inside(*module, Opcode::all_reduce), 1);
}

// Zeros that rounds write their rows into become tiles of zeros, as the rows are tiles.
TEST(PartitionBodies, WhatRoundsStackIsStackedByTiles) {
  const auto module = on_tiles(R"(
step {
  s = (s32[], f32[4,6], f32[5,4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  all = f32[5,4,6] get-tuple-element(s), index=2
  y = f32[4,6] sine(x)
  row = f32[1,4,6] reshape(y)
  zero = s32[] constant(0)
  put = f32[5,4,6] dynamic-update-slice(all, row, i, zero, zero)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[4,6], f32[5,4,6]) tuple(n, y, put)
}
more {
  s = (s32[], f32[4,6], f32[5,4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT c = pred[] compare(i, five), direction=LT
}
ENTRY e {
  x = f32[4,6] parameter(0), sharding={devices=[2,1]<=[2]}
  nothing = f32[] constant(0)
  zeros = f32[5,4,6] broadcast(nothing), dimensions={}
  zero = s32[] constant(0)
  s = (s32[], f32[4,6], f32[5,4,6]) tuple(zero, x, zeros)
  w = (s32[], f32[4,6], f32[5,4,6]) while(s), condition=more, body=step
  ROOT all = f32[5,4,6] get-tuple-element(w), index=2, sharding={devices=[1,2,1]<=[2]}
}
)",
                               2);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  for (const auto& computation : module->computations()) {
    for (const auto& one : computation->instructions()) {
      EXPECT_FALSE(one->shape() == ir::Shape(ir::DType::f32, {5, 4, 6})) << ir::to_text(*module);
    }
  }
}

// What every round would gather is gathered once, before: what never changes, and what the body
// does not make as tiles. A condition may sum over tiles.
TEST(PartitionBodies, WhatEveryRoundWouldGatherIsGatheredBefore) {
  const auto module = on_tiles(R"(
step {
  s = (f32[8], f32[8,32], f32[8,8]) parameter(0)
  x = f32[8] get-tuple-element(s), index=0
  h = f32[8,32] get-tuple-element(s), index=1
  w = f32[8,8] get-tuple-element(s), index=2
  turned = f32[8] reverse(x), dimensions={0}
  half = f32[] constant(0.5)
  halves = f32[8] broadcast(half), dimensions={}
  y = f32[8] multiply(turned, halves)
  g = f32[32,8] dot(h, w), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  t = f32[8,32] transpose(g), dimensions={1,0}
  tenth = f32[] constant(0.1)
  tenths = f32[8,32] broadcast(tenth), dimensions={}
  k = f32[8,32] multiply(t, tenths)
  ROOT r = (f32[8], f32[8,32], f32[8,8]) tuple(y, k, w)
}
more {
  s = (f32[8], f32[8,32], f32[8,8]) parameter(0)
  h = f32[8,32] get-tuple-element(s), index=1
  x = f32[8] get-tuple-element(s), index=0
  zero = f32[] constant(0)
  m = f32[8,32] abs(h)
  n = f32[] reduce(m, zero), dimensions={0,1}, to_apply=sum
  a = f32[8] abs(x)
  b = f32[] reduce(a, zero), dimensions={0}, to_apply=sum
  both = f32[] add(n, b)
  little = f32[] constant(0.1)
  ROOT c = pred[] compare(both, little), direction=GT
}
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  h = f32[8,32] parameter(1), sharding={devices=[1,2]<=[2]}
  w = f32[8,8] parameter(2), sharding={devices=[2,1]<=[2]}
  s = (f32[8], f32[8,32], f32[8,8]) tuple(x, h, w)
  ROOT l = (f32[8], f32[8,32], f32[8,8]) while(s), condition=more, body=step
}
)",
                               2);
  EXPECT_EQ(number_inside(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 2) << ir::to_text(*module);
}

// Gradients of a weight that rounds add up are summed once, behind the loop, whatever they start
// from; a sum that a round reads is one of that round.
TEST(PartitionBodies, SumsOverRoundsAreSummedOnce) {
  for (const bool is_read : {false, true}) {
    for (const char* start : {"spread", "first"}) {
      std::string text = R"(
step {
  s = (s32[], f32[3,2], f32[5,8,3], f32[8,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  g = f32[3,2] get-tuple-element(s), index=1
  xs = f32[5,8,3] get-tuple-element(s), index=2
  y = f32[8,2] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  row = f32[1,8,3] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,8,3}
  x = f32[8,3] reshape(row)
  d = f32[3,2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  h = f32[3,2] add(g, d)
  z = f32[8,2] dot(x, READ), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,2] tanh(z)
  n = f32[8,2] add(t, y)
  one = s32[] constant(1)
  k = s32[] add(i, one)
  ROOT r = (s32[], f32[3,2], f32[5,8,3], f32[8,2]) tuple(k, h, xs, n)
}
more {
  s = (s32[], f32[3,2], f32[5,8,3], f32[8,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  five = s32[] constant(5)
  ROOT c = pred[] compare(i, five), direction=LT
}
ENTRY e {
  xs = f32[5,8,3] parameter(0), sharding={devices=[1,4,1]<=[4]}
  y = f32[8,2] parameter(1), sharding={devices=[4,1]<=[4]}
  first = f32[3,2] parameter(2), sharding={replicated}
  none = f32[] constant(0)
  spread = f32[3,2] broadcast(none), dimensions={}
  zero = s32[] constant(0)
  s = (s32[], f32[3,2], f32[5,8,3], f32[8,2]) tuple(zero, START, xs, y)
  w = (s32[], f32[3,2], f32[5,8,3], f32[8,2]) while(s), condition=more, body=step
  g = f32[3,2] get-tuple-element(w), index=1
  n = f32[8,2] get-tuple-element(w), index=3
  ROOT r = (f32[3,2], f32[8,2]) tuple(g, n)
}
)";
      text.replace(text.find("READ"), 4, is_read ? "g" : "d");
      text.replace(text.find("START"), 5, start);
      const auto module = on_tiles(text, 4);
      // Where the round reads its own product, that is summed in it.
      EXPECT_EQ(number_inside(*module, Opcode::all_reduce), 1) << ir::to_text(*module);
      EXPECT_EQ(number_of(*module, Opcode::all_reduce), is_read ? 1 : 2) << ir::to_text(*module);
      text.replace(text.find(is_read ? "dot(x, g)" : "dot(x, d)"), 9, "dot(x, w)");
      text.insert(text.find("  row = "), "  w = f32[3,2] constant({{1, 2}, {3, 4}, {5, 6}})\n");
      const auto apart = on_tiles(text, 4);
      EXPECT_EQ(number_inside(*apart, Opcode::all_reduce), 0) << ir::to_text(*apart);
      EXPECT_EQ(number_of(*apart, Opcode::all_reduce), 1) << ir::to_text(*apart);
    }
  }
}

// Loops in loops, and branches inside: each result by the tiles of the branch that makes some.
TEST(PartitionBodies, LoopsAndBranchesInsideEachOther) {
  const auto module = on_tiles(R"(
half { x = f32[8,2] parameter(0) k = f32[] constant(0.5) b = f32[8,2] broadcast(k), dimensions={} ROOT m = f32[8,2] multiply(x, b) }
none { x = f32[8,2] parameter(0) k = f32[] constant(1) ROOT m = f32[8,2] broadcast(k), dimensions={} }
inner {
  s = (s32[], f32[8,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,2] get-tuple-element(s), index=1
  two = s32[] constant(2)
  which = s32[] remainder(i, two)
  y = f32[8,2] conditional(which, x, x), branch_computations={half, none}
  z = f32[8,2] add(y, x)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[8,2]) tuple(n, z)
}
below {
  s = (s32[], f32[8,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(i, k), direction=LT
}
outer {
  s = (s32[], f32[8,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,2] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  t = (s32[], f32[8,2]) tuple(zero, x)
  w = (s32[], f32[8,2]) while(t), condition=below, body=inner
  y = f32[8,2] get-tuple-element(w), index=1
  z = f32[8,2] tanh(y)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[8,2]) tuple(n, z)
}
ENTRY e {
  x = f32[8,2] parameter(0), sharding={devices=[4,1]<=[4]}
  zero = s32[] constant(0)
  s = (s32[], f32[8,2]) tuple(zero, x)
  w = (s32[], f32[8,2]) while(s), condition=below, body=outer
  ROOT y = f32[8,2] get-tuple-element(w), index=1, sharding={devices=[4,1]<=[4]}
}
)",
                               4);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  EXPECT_EQ(number_of(*module, Opcode::conditional), 1);
}

// A manual region in a body takes and gives tiles; what all have of an array outside is an array of
// each partition's own inside, whatever is known of it.
TEST(PartitionBodies, RegionsInBodiesTakeTheStatesTiles) {
  const std::string program = R"(
step {
  s = (s32[], f32[4,2], f32[4,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,2] get-tuple-element(s), index=1
  w = f32[4,2] get-tuple-element(s), index=2
  sx = f32[4,2] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1]<=[2]}
  mx = f32[2,2] custom-call(sx), custom_call_target="SPMDFullToShardShape", sharding={manual}
  sw = f32[4,2] custom-call(w), custom_call_target="Sharding", sharding={replicated}
  mw = f32[4,2] custom-call(sw), custom_call_target="SPMDFullToShardShape", sharding={manual}
  twice = f32[4,2] concatenate(mx, mx), dimensions={0}
  both = f32[4,2] add(twice, mw)
  part = f32[2,2] slice(both), slice={[1:3], [0:2]}
  my = f32[2,2] custom-call(part), custom_call_target="Sharding", sharding={manual}
  y = f32[4,2] custom-call(my), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1]<=[2]}
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[4,2], f32[4,2]) tuple(n, y, w)
}
more {
  s = (s32[], f32[4,2], f32[4,2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY e {
  x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
  w = f32[4,2] parameter(1), sharding={devices=[2,1]<=[2]}
  zero = s32[] constant(0)
  s = (s32[], f32[4,2], f32[4,2]) tuple(zero, x, w)
  l = (s32[], f32[4,2], f32[4,2]) while(s), condition=more, body=step
  ROOT y = f32[4,2] get-tuple-element(l), index=1, sharding={devices=[2,1]<=[2]}
}
)";
  std::string whole = program;
  const std::size_t first = whole.find("  sx = "), last = whole.find("  one = s32[]");
  whole.replace(first, last - first, R"(
  pairs = f32[2,2,2] reshape(x)
  turned = f32[2,2,2] reverse(pairs), dimensions={1}
  flat = f32[4,2] reshape(turned)
  middle = f32[2,2] slice(w), slice={[1:3], [0:2]}
  middles = f32[4,2] concatenate(middle, middle), dimensions={0}
  y = f32[4,2] add(flat, middles)
)");
  const auto module = on_tiles(program, 2, whole);
  // Of what stays the same, once, before the loop.
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 1) << ir::to_text(*module);
  EXPECT_EQ(number_inside(*module, Opcode::all_gather), 0);
}

// Gradients that a loop stacks and that only update weights which are cut are stacked by the
// weights' tiles; a norm of them is summed of those.
TEST(PartitionBodies, WhatIsReadByTilesBehindALoopIsStackedByTiles) {
  const auto module = on_tiles(R"(
step {
  s = (s32[], f32[3,6,8], f32[3,16,6], f32[16,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  all = f32[3,6,8] get-tuple-element(s), index=1
  xs = f32[3,16,6] get-tuple-element(s), index=2
  d = f32[16,8] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  row = f32[1,16,6] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,16,6}
  x = f32[16,6] reshape(row)
  dw = f32[6,8] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  one_row = f32[1,6,8] reshape(dw)
  put = f32[3,6,8] dynamic-update-slice(all, one_row, i, zero, zero)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[3,6,8], f32[3,16,6], f32[16,8]) tuple(n, put, xs, d)
}
more {
  s = (s32[], f32[3,6,8], f32[3,16,6], f32[16,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  three = s32[] constant(3)
  ROOT c = pred[] compare(i, three), direction=LT
}
ENTRY e {
  w = f32[3,6,8] parameter(0), sharding={devices=[1,1,4]<=[4]}
  xs = f32[3,16,6] parameter(1), sharding={devices=[1,4,1]<=[4]}
  d = f32[16,8] parameter(2), sharding={devices=[4,1]<=[4]}
  none = f32[] constant(0)
  zeros = f32[3,6,8] broadcast(none), dimensions={}
  zero = s32[] constant(0)
  s = (s32[], f32[3,6,8], f32[3,16,6], f32[16,8]) tuple(zero, zeros, xs, d)
  l = (s32[], f32[3,6,8], f32[3,16,6], f32[16,8]) while(s), condition=more, body=step
  g = f32[3,6,8] get-tuple-element(l), index=1
  squares = f32[3,6,8] multiply(g, g)
  norm = f32[] reduce(squares, none), dimensions={0,1,2}, to_apply=sum
  norms = f32[3,6,8] broadcast(norm), dimensions={}
  rate = f32[3,6,8] divide(g, norms)
  u = f32[3,6,8] subtract(w, rate)
  ROOT r = (f32[3,6,8]) tuple(u)
}
)",
                               4);
  EXPECT_EQ(number_of(*module, Opcode::all_gather), 0) << ir::to_text(*module);
  for (const auto& one : module->entry()->instructions()) {
    EXPECT_FALSE(one->shape() == ir::Shape(ir::DType::f32, {3, 6, 8})) << ir::to_text(*module);
    if (one->opcode() != Opcode::while_) continue;
    EXPECT_EQ(one->shape().elements()[1], ir::Shape(ir::DType::f32, {3, 6, 2}));
  }
}

// What a region spreads is each partition's own.
TEST(PartitionBodies, WhatARegionSpreadsIsGatheredAsItIs) {
  const std::string program = R"(
ENTRY e {
  x = f32[4,2] parameter(0), sharding={devices=[2,1]<=[2]}
  sx = f32[4,2] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1]<=[2]}
  mx = f32[2,2] custom-call(sx), custom_call_target="SPMDFullToShardShape", sharding={manual}
  zero = f32[] constant(0)
  s = f32[] reduce(mx, zero), dimensions={0,1}, to_apply=sum
  b = f32[2] broadcast(s), dimensions={}
  mb = f32[2] custom-call(b), custom_call_target="Sharding", sharding={manual}
  y = f32[4] custom-call(mb), custom_call_target="SPMDShardToFullShape", sharding={devices=[2]<=[2]}
  ROOT r = f32[4] reverse(y), dimensions={0}, sharding={replicated}
}
)";
  std::string whole = program;
  const std::size_t first = whole.find("  sx = "), last = whole.find("  ROOT r");
  whole.replace(first, last - first, R"(
  zero = f32[] constant(0)
  pairs = f32[2,4] reshape(x)
  s = f32[2] reduce(pairs, zero), dimensions={1}, to_apply=sum
  b = f32[2,2] broadcast(s), dimensions={0}
  y = f32[4] reshape(b)
)");
  (void)on_tiles(program, 2, whole);
}

}  // namespace
}  // namespace plimsoll::passes
