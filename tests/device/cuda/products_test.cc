// SPDX-License-Identifier: Apache-2.0
// Products by a recording library: programs, graphs, failures, memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/cuda/gpu_library.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/device/cuda/recorded_libraries.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

// Two layers and their gradients, with products that are read transposed, in batches, and of bf16.
constexpr const char* kLayers = R"(
HloModule layers
ENTRY e {
  x = f32[24,20] parameter(0)
  w = f32[20,28] parameter(1)
  v = f32[28,12] parameter(2)
  q = f32[2,24,3,4] parameter(3)
  h = f32[24,28] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[24,28] tanh(h)
  y = f32[24,12] dot(t, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dv = f32[28,12] dot(t, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dt = f32[24,28] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dh = f32[24,28] multiply(dt, t)
  dw = f32[20,28] dot(x, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dx = f32[24,20] dot(dh, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  s = f32[2,3,24,24] dot(q, q), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  e = f32[2,3,24,24] exponential(s)
  b = bf16[24,28] convert(dh)
  c = bf16[24,20] convert(dx)
  d = f32[28,20] dot(b, c), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT r = (f32[28,12], f32[20,28], f32[24,20], f32[2,3,24,24], f32[28,20]) tuple(dv, dw, dx, e, d)
})";

// Eight dots, one of them by two calls.
constexpr std::int64_t kCalls = 9;

class Products : public RecordedLibraries {
 protected:
  void open(Schedule schedule, unsigned seed, std::int64_t module_bytes = 0) {
    RecordedLibraries::open(
        {.module_bytes = module_bytes, .schedule = schedule, .seed = seed, .has_products = true});
  }
  std::int64_t multiplied() const { return gpu_->driver.calls("cublasLtMatmul"); }
};

TEST_F(Products, OfEveryCaseAreThoseOfTheCpu) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  const ByLibrary done = compare_cases("dot", [this] { return multiplied(); });
  EXPECT_GT(done.cases, 20);
  EXPECT_GT(done.others, 5) << "copies, integers, mixed dtypes";
}

TEST_F(Products, OfAProgramHaveTheSameBitsAtEveryLimit) {
  const auto module = ir::parse_module(kLayers, "layers").value();
  const auto arguments = cases::random_arguments(*module, 3);
  const ir::Literal expected = on_cpu(*module, arguments);
  for (const unsigned seed : {1U, 2U}) {
    open(seed == 1 ? Schedule::late : Schedule::random, seed);
    if (IsSkipped()) return;
    std::string error;
    const ir::Literal result =
        testing::run_unlimited(*module, arguments, *gpu_->provider(), true, error);
    ASSERT_EQ(error, "");
    EXPECT_GT(multiplied(), 0);
    EXPECT_EQ(multiplied() % kCalls, 0);
    EXPECT_EQ(cases::compare_close(expected, result, 2e-2, 1), "");
    testing::LimitOptions options;
    options.host_bytes = std::int64_t{1} << 30;
    EXPECT_EQ(testing::check_limits(*module, arguments, *gpu_->provider(), seed, 3, options), "");
    close();
  }
}

TEST_F(Products, EqualOnesAreOneKernelAndItsWorkspaceIsPlanned) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  // With a dim of size 1 or without.
  const auto dot = [](const std::string& one) {
    return ir::parse_module(
               "HloModule m\nENTRY e {\n  a = f32[" + one +
                   "32,256] parameter(0)\n  b = f32[256,32] parameter(1)\n  ROOT r = f32[" + one +
                   "32,32] dot(a, b), lhs_contracting_dims={" + (one.empty() ? "1" : "2") +
                   "}, rhs_contracting_dims={0}\n}\n",
               "m")
        .value();
  };
  const auto plain = dot(""), with_one = dot("1,");
  {
    const auto first = gpu_->provider()->kernel(*plain->entry()->root());
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    EXPECT_EQ((*first)->origin(), KernelOrigin::library);
    EXPECT_EQ((*first)->name(), "cublaslt.product");
    // Two parts of every sum, and room to begin where the library wants them.
    EXPECT_EQ((*first)->workspace_bytes(), 2 * 32 * 32 * 4 + 256 - 64);
    const auto second = gpu_->provider()->kernel(*with_one->entry()->root());
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(*first, *second);
    EXPECT_EQ(gpu_->driver.calls("cublasLtMatmulAlgoGetHeuristic"), 1);
    EXPECT_NE(gpu_->products->leaks(), "1 handles");
  }
  EXPECT_EQ(gpu_->products->leaks(), "1 handles");
}

TEST_F(Products, WhatTheLibraryHasNotOurOwnKernelsCompute) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  gpu_->products->know_nothing();
  const auto module = ir::parse_module(kLayers, "layers").value();
  const auto arguments = cases::random_arguments(*module, 3);
  std::string error;
  const ir::Literal result =
      testing::run_unlimited(*module, arguments, *gpu_->provider(), true, error);
  ASSERT_EQ(error, "");
  EXPECT_EQ(cases::compare_close(on_cpu(*module, arguments), result, 2e-2, 1), "");
  EXPECT_EQ(multiplied(), 0);
}

TEST_F(Products, CountWhatTheLibraryTakesAndRoomForItsCode) {
  constexpr std::int64_t kModule = std::int64_t{1} << 20;
  open(Schedule::late, 1, kModule);
  if (IsSkipped()) return;
  constexpr std::int64_t kAhead = kernels::cuda::ProductLibrary::kAheadBytes;
  EXPECT_EQ(gpu_->device->overhead_bytes(), 0);
  KernelProvider& provider = *gpu_->provider();
  // Of the library, and of small copies.
  EXPECT_EQ(gpu_->device->overhead_bytes(), 2 * kModule + kAhead);
  const auto module = ir::parse_module(kLayers, "layers").value();
  const auto arguments = cases::random_arguments(*module, 3);
  std::string error;
  (void)testing::run_unlimited(*module, arguments, provider, true, error);
  ASSERT_EQ(error, "");
  // Kernels of the program are gone; code of the library stays, out of what was counted ahead.
  EXPECT_EQ(gpu_->device->overhead_bytes(), 2 * kModule + kAhead);
  const auto executables = [&] {
    const std::int64_t before = gpu_->device->free_bytes();
    (void)testing::run_unlimited(*module, arguments, provider, true, error);
    return before - gpu_->device->free_bytes();
  };
  EXPECT_EQ(executables(), 0) << "code is loaded once";
}

TEST_F(Products, AreLaunchedByGraphs) {
  for (const unsigned seed : {1U, 2U}) {
    open(seed == 1 ? Schedule::late : Schedule::random, seed);
    if (IsSkipped()) return;
    const auto module = ir::parse_module(kLayers, "layers").value();
    const auto arguments = cases::random_arguments(*module, 3);
    {
      const auto made = make(*module);
      ASSERT_TRUE(made.ok()) << made.status().to_string();
      std::vector<ir::Literal> results;
      for (int i = 0; i < 5; ++i) {
        const auto result = executor::run_on_host(*made->executable, *made->budget, arguments);
        ASSERT_TRUE(result.ok()) << result.status().to_string();
        results.push_back(*result);
        EXPECT_EQ(cases::compare_bits(results.front(), *result), "") << i;
      }
      // The first run finds where things lie, the second is captured.
      EXPECT_EQ(multiplied(), 2 * kCalls);
      EXPECT_EQ(gpu_->driver.calls("cuGraphLaunch"), 4);
    }
    close();
  }
}

TEST_F(Products, ThatCannotBeCapturedRunWithoutAGraph) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  const auto module = ir::parse_module(kLayers, "layers").value();
  const auto arguments = cases::random_arguments(*module, 3);
  const auto made = make(*module);
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  const auto first = executor::run_on_host(*made->executable, *made->budget, arguments);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  gpu_->driver.fail_next("cublasLtMatmul");
  for (int i = 0; i < 3; ++i) {
    const auto result = executor::run_on_host(*made->executable, *made->budget, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(*first, *result), "");
  }
  EXPECT_EQ(gpu_->driver.calls("cuGraphLaunch"), 0);
}

TEST_F(Products, EveryCallMayFail) {
  open(Schedule::random, 5);
  if (IsSkipped()) return;
  fail_every_call(*ir::parse_module(kLayers, "layers").value(),
                  [&] { return gpu_->products->leaks(); });
}

}  // namespace
}  // namespace plimsoll::device::cuda
