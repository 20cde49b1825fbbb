// SPDX-License-Identifier: Apache-2.0
// Products that read slices of stacks where they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/fusions/sliced_operands.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/replace_all.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// Layers of a stack, in an order that leaves it at both ends, where indices are clamped.
std::string layers_text(const std::string& dtype, const std::string& index, bool is_turned) {
  std::string text = R"(
HloModule layers
body { p = (INDEX[], DT[4,64], DT[5,64,64], DT[4,64]) parameter(0)
  i = INDEX[] get-tuple-element(p), index=0
  x = DT[4,64] get-tuple-element(p), index=1
  w = DT[5,64,64] get-tuple-element(p), index=2
  b = DT[4,64] get-tuple-element(p), index=3
  zero = INDEX[] constant(0)
  one = INDEX[] constant(1)
  three = INDEX[] constant(3)
  at = INDEX[] subtract(i, one)
  far = INDEX[] multiply(at, three)
  s = DT[1,64,64] dynamic-slice(w, far, zero, zero), dynamic_slice_sizes={1,64,64}
  layer = DT[64,64] reshape(s)
  y = DT[4,64] dot(x, layer), lhs_contracting_dims={1}, rhs_contracting_dims={CONTRACTED}
  z = DT[4,64] add(y, b)
  t = DT[4,64] tanh(z)
  j = INDEX[] add(i, one)
  ROOT r = (INDEX[], DT[4,64], DT[5,64,64], DT[4,64]) tuple(j, t, w, b) }
more { p = (INDEX[], DT[4,64], DT[5,64,64], DT[4,64]) parameter(0)
  i = INDEX[] get-tuple-element(p), index=0
  n = INDEX[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY main { x = DT[4,64] parameter(0)
  w = DT[5,64,64] parameter(1)
  b = DT[4,64] parameter(2)
  i = INDEX[] constant(0)
  init = (INDEX[], DT[4,64], DT[5,64,64], DT[4,64]) tuple(i, x, w, b)
  l = (INDEX[], DT[4,64], DT[5,64,64], DT[4,64]) while(init), condition=more, body=body
  ROOT o = DT[4,64] get-tuple-element(l), index=1 })";
  text = cases::replace_all(text, "INDEX", index);
  text = cases::replace_all(text, "DT", dtype);
  return cases::replace_all(text, "CONTRACTED", is_turned ? "1" : "0");
}

std::int64_t sliced_dots(const ir::Module& module) {
  std::int64_t count = 0;
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      if (ir::has_sliced_operands(*instruction)) ++count;
    }
  }
  return count;
}

// The program has so many products of slices where its passes run and the device reads slices, and
// the same bits as without passes.
void expect_bits_of_copies(const std::string& text, std::int64_t products) {
  auto module = ir::parse_module(text);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto arguments = cases::random_arguments(**module, 3);
  std::vector<ir::Literal> results;
  const bool reads_slices = provider().has_sliced_operands();
  for (const bool optimized : {true, false}) {
    const auto program = Program::create((*module)->clone(), provider(), optimized);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    EXPECT_EQ(sliced_dots((*program)->module()), optimized && reads_slices ? products : 0);
    const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
    const auto executable = make_executable(*program, {}, {}, *budget);
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    auto result = run_on_host(**executable, *budget, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    results.push_back(*std::move(result));
  }
  EXPECT_TRUE(results[0] == results[1]);
}

TEST(SlicedDot, HasTheBitsOfAProductOfCopies) {
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    for (const char* index : {"s32", "s64", "u32"}) {
      for (const bool is_turned : {false, true}) {
        const std::string text = layers_text(dtype, index, is_turned);
        SCOPED_TRACE(std::string(dtype) + " " + index + (is_turned ? " turned" : ""));
        expect_bits_of_copies(text, 1);
      }
    }
  }
}

// Two layers and their gradients, by parts of one array of parameters.
std::string stacked_text(const std::string& dtype) {
  const std::string text = R"(
HloModule stacked
ENTRY main { x = DT[4,64] parameter(0)
  w = DT[2,64,64] parameter(1)
  s0 = DT[1,64,64] slice(w), slice={[0:1], [0:64], [0:64]}
  w0 = DT[64,64] reshape(s0)
  s1 = DT[1,64,64] slice(w), slice={[1:2], [0:64], [0:64]}
  w1 = DT[64,64] reshape(s1)
  a = DT[4,64] dot(x, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = DT[4,64] tanh(a)
  b = DT[4,64] dot(h, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = DT[4,64] dot(b, w1), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = DT[4,64] multiply(d, h)
  ROOT g = DT[4,64] dot(e, w0), lhs_contracting_dims={1}, rhs_contracting_dims={1} })";
  return cases::replace_all(text, "DT", dtype);
}

TEST(SlicedDot, ReadsPartsOfParametersWhereTheyLie) {
  for (const char* dtype : {"f32", "bf16", "f64"}) {
    SCOPED_TRACE(dtype);
    expect_bits_of_copies(stacked_text(dtype), 4);
  }
}

// A layer's 16 KiB are not held twice.
TEST(SlicedDot, NeedsNoRoomForTheSlice) {
  if (!device::default_device()->is_host_memory()) GTEST_SKIP() << "of the host alone";
  auto module = ir::parse_module(layers_text("f32", "s32", false));
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  std::vector<std::int64_t> peaks;
  for (const bool optimized : {true, false}) {
    const auto program = Program::create((*module)->clone(), provider(), optimized);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    const auto plan = (*program)->plan({});
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    peaks.push_back((*plan)->peak_bytes);
  }
  EXPECT_LE(peaks[0] + 64 * 64 * 4, peaks[1]);
}

}  // namespace
}  // namespace plimsoll::executor
