// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/cost_model.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/text/text.h"
#include "runtime/planner/cost/trip_count.h"

namespace plimsoll::planner {
namespace {

TEST(CostModel, CountsTheWorkOfContractionsFusionsAndReductions) {
  const auto module = ir::parse_module(R"(
HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
fused { p = f32[100] parameter(0)
  n = f32[100] negate(p)
  ROOT q = f32[100] add(n, p) }
ENTRY e {
  a = f32[8,32] parameter(0)
  b = f32[32,16] parameter(1)
  v = f32[100] parameter(2)
  z = f32[] constant(0)
  i = f32[1,3,8,8] parameter(3)
  k = f32[5,3,3,3] parameter(4)
  conv = f32[1,5,6,6] convolution(i, k), window={size=3x3}, dim_labels=bf01_oi01->bf01
  dot = f32[8,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  fusion = f32[100] fusion(v), kind=kLoop, calls=fused
  reduce = f32[] reduce(fusion, z), dimensions={0}, to_apply=sum
  ROOT t = (f32[8,16], f32[], f32[1,5,6,6]) tuple(dot, reduce, conv)
})");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Computation& entry = *(*module)->entry();
  EXPECT_EQ(count_work(*entry.find("dot")).flops, 2 * 8 * 16 * 32);
  EXPECT_EQ(count_work(*entry.find("dot")).bytes, 4 * (8 * 32 + 32 * 16 + 8 * 16));
  EXPECT_EQ(count_work(*entry.find("conv")).flops, 2 * 5 * 36 * 27);
  EXPECT_EQ(count_work(*entry.find("fusion")).flops, 200);
  EXPECT_EQ(count_work(*entry.find("fusion")).bytes, 800);
  EXPECT_EQ(count_work(*entry.find("reduce")).flops, 100);
  const RooflineCostModel model;
  EXPECT_GT(model.seconds(*entry.find("conv")), model.seconds(*entry.find("reduce")));
}

// Stacking a slice in a loop costs the slice, however long the stack: so do reading it back and
// adding up rows of a gradient.
TEST(CostModel, UpdatesCostWhatTheyBring) {
  const auto module = ir::parse_module(R"(HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
stack {
  arrays = f32[100,64] parameter(0)
  x = f32[1,64] parameter(1)
  round = s32[] parameter(2)
  zero = s32[] constant(0)
  y = f32[1,64] tanh(x)
  other = f32[1,64] negate(x)
  put = f32[100,64] dynamic-update-slice(arrays, y, round, zero)
  ROOT both = (f32[100,64], f32[1,64]) tuple(put, other)
}
begin {
  x = f32[1,64] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[100,64] broadcast(zero), dimensions={}
  first = s32[] constant(0)
  ROOT put = f32[100,64] dynamic-update-slice(zeros, x, first, first)
}
ENTRY e {
  stack = f32[100,64] parameter(0)
  slice = f32[1,64] parameter(1)
  start = f32[100,64] fusion(slice), kind=kLoop, calls=begin
  round = s32[] parameter(2)
  zero = s32[] constant(0)
  rows = s32[3,1] parameter(3)
  gradients = f32[3,64] parameter(4)
  fusion = (f32[100,64], f32[1,64]) fusion(stack, slice, round), kind=kLoop, calls=stack
  stacked = f32[100,64] get-tuple-element(fusion), index=0
  update = f32[100,64] dynamic-update-slice(stacked, slice, round, zero)
  ROOT scatter = f32[100,64] scatter(update, rows, gradients), to_apply=add, update_window_dims={1},
      inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1
})");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Computation& entry = *(*module)->entry();
  // Reads a slice and a number, writes two.
  EXPECT_EQ(count_work(*entry.find("fusion")).bytes, 4 * (64 + 1 + 2 * 64));
  // Zeros that it makes are written, too.
  EXPECT_EQ(count_work(*entry.find("start")).bytes, 4 * (64 + 100 * 64));
  EXPECT_EQ(count_work(*entry.find("update")).bytes, 4 * 2 * 64);
  EXPECT_EQ(count_work(*entry.find("scatter")).bytes, 4 * (3 + 3 * 3 * 64));
}

TEST(CostModel, FusionsThatShareALaunchReadAndWriteWhatTheyDoAlone) {
  const auto module = ir::parse_module(R"(HloModule m
slice {
  stack = f32[100,64] parameter(0)
  round = s32[] parameter(1)
  zero = s32[] constant(0)
  ROOT row = f32[1,64] dynamic-slice(stack, round, zero), dynamic_slice_sizes={1,64}
}
twice { x = f32[64] parameter(0) ROOT y = f32[64] add(x, x) }
both {
  stack = f32[100,64] parameter(0)
  round = s32[] parameter(1)
  x = f32[64] parameter(2)
  row = f32[1,64] fusion(stack, round), kind=kLoop, calls=slice
  sum = f32[64] fusion(x), kind=kLoop, calls=twice
  ROOT t = (f32[1,64], f32[64]) tuple(row, sum)
}
ENTRY e {
  stack = f32[100,64] parameter(0)
  round = s32[] parameter(1)
  x = f32[64] parameter(2)
  ROOT launch = (f32[1,64], f32[64]) fusion(stack, round, x), kind=kLoop, calls=both
})");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_EQ(count_work(*(*module)->entry()->find("launch")).bytes, 4 * (64 + 1 + 64 + 2 * 64));
}

// Transforms and linear algebra grow faster than the bytes they touch, in any form of them.
TEST(CostModel, CountsWhatLibrariesCompute) {
  const auto work = [](const std::string& line) {
    const auto module = ir::parse_module(
        "HloModule m\nENTRY e { c = c64[8,4096] parameter(0)\n f = f32[8,4096] parameter(1)\n"
        "a = f32[3,64,64] parameter(2)\n b = f32[3,64,10] parameter(3)\n big = f32[3,128,128] "
        "parameter(4)\n ROOT r = " +
            line + " }",
        "m");
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    return module.ok() ? count_work(*(*module)->entry()->root()).flops : 0;
  };
  const double line = work("c64[8,4096] fft(c), fft_type=FFT, fft_length={4096}");
  EXPECT_EQ(line, work("c64[8,4096] custom-call(c), custom_call_target=\"plimsoll.fft\", "
                       "fft_type=FFT, fft_length={4096}"));
  EXPECT_EQ(line, 2 * work("c64[8,2049] fft(f), fft_type=RFFT, fft_length={4096}"));
  EXPECT_EQ(line, work("c64[8,4096] fft(c), fft_type=FFT, fft_length={8,4096}") * 12 / 15);
  EXPECT_GT(line, 8 * 4096 * 12 * 5);
  const auto call = [&](const std::string& shape, const std::string& operands, const char* name) {
    return work(shape + " custom-call(" + operands + "), custom_call_target=\"lapack_s" + name +
                "_ffi\"");
  };
  EXPECT_EQ(call("f32[3,64,10]", "a, b", "trsm"), 3 * 64 * 10 * 64);
  const double small = call("(f32[3,64,64], s32[3])", "a", "potrf");
  EXPECT_EQ(call("(f32[3,128,128], s32[3])", "big", "potrf"), 8 * small);
  EXPECT_GT(small, 3 * 64 * 64 * 64 / 3);
  EXPECT_GT(call("(f32[3,64,64], f32[3,64], s32[3])", "a", "syevd"), 20 * small);
  // Of no known cost: by its results.
  EXPECT_EQ(call("f32[3,64,10]", "a, b", "unknown"), 3 * 64 * 10);
}

TEST(TripCount, ReadsAnnotationsAndCounters) {
  const auto module = ir::parse_module(R"(
HloModule m
body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4]) tuple(j, x)
}
cond {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(12)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  p = f32[4] parameter(0)
  two = s32[] constant(2)
  init = (s32[], f32[4]) tuple(two, p)
  counted = (s32[], f32[4]) while(init), condition=cond, body=body
  ROOT known = (s32[], f32[4]) while(counted), condition=cond, body=body, backend_config={"known_trip_count":{"n":"7"}}
})");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_EQ(trip_count(*(*module)->entry()->find("counted")), 10);
  EXPECT_EQ(trip_count(*(*module)->entry()->find("known")), 7);
}

}  // namespace
}  // namespace plimsoll::planner
