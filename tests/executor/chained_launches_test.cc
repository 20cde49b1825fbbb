// SPDX-License-Identifier: Apache-2.0
// A convolution and what reads its result element by element in one launch: that it happens, and
// that it changes no bit, at any limit.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cpu/parallel.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

// Three layers of a residual network; `c` is read by what comes after the second one, too.
const char* const kLayers = R"(
HloModule layers
ENTRY main {
  x = f32[2,24,24,16] parameter(0)
  v = f32[3,3,16,32] parameter(1)
  w = f32[3,3,32,32] parameter(2)
  b = f32[32] parameter(3)
  zero = f32[] constant(0)
  zeros = f32[2,24,24,32] broadcast(zero), dimensions={}
  bs = f32[2,24,24,32] broadcast(b), dimensions={3}
  c = f32[2,24,24,32] convolution(x, v), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  d = f32[2,24,24,32] add(c, bs)
  e = f32[2,24,24,32] maximum(d, zeros)
  f = f32[2,24,24,32] convolution(e, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  g = f32[2,24,24,32] add(f, bs)
  h = f32[2,24,24,32] add(g, e)
  i = f32[2,24,24,32] maximum(h, zeros)
  j = f32[2,24,24,32] convolution(i, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  k = f32[2,24,24,32] logistic(j)
  ROOT l = f32[2,24,24,32] multiply(j, k)
})";

TEST(ChainedLaunches, ConvolutionsShareLaunchesWithWhatReadsThem) {
  auto module = ir::parse_module(kLayers);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto arguments = cases::random_arguments(**module, 3);
  const auto expected = ir::interpret(**module, arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const auto program = executor::Program::create((*module)->clone(), provider());
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto unlimited = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto most = make_executable(*program, {}, {}, *unlimited);
  ASSERT_TRUE(most.ok()) << most.status().to_string();
  const executor::LaunchCounts launches = (*most)->launches();
  EXPECT_EQ(launches.kernels, 6);
  EXPECT_LE(launches.launches, 4);  // the last one writes the result, where the third may not
  const std::int64_t peak = (*most)->plan().peak_bytes;
  const int before = device::thread_count();
  std::vector<ir::Literal> results;
  for (const std::int64_t percent : {100, 80, 70}) {
    const auto budget = memory::Budget::create(device::default_device(), peak * percent / 100);
    const auto made = make_executable(*program, {}, {}, *budget);
    if (!made.ok()) {
      EXPECT_EQ(made.status().code(), StatusCode::resource_exhausted);
      EXPECT_LT(percent, 100);
      continue;
    }
    for (const int threads : {1, 2, 5}) {
      device::set_thread_count(threads);
      for (const bool joint : {true, false}) {
        (*made)->enable_joint_launches(joint);
        auto result = executor::run_on_host(**made, *budget, arguments);
        ASSERT_TRUE(result.ok()) << result.status().to_string();
        results.push_back(std::move(*result));
      }
    }
  }
  device::set_thread_count(before);
  ASSERT_GE(results.size(), 6U);
  EXPECT_EQ(cases::compare_close(*expected, results[0], 1e-4, 1e-4), "");
  for (const ir::Literal& result : results) EXPECT_TRUE(result == results[0]);
}

}  // namespace
}  // namespace plimsoll
