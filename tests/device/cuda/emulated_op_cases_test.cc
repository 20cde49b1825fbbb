// SPDX-License-Identifier: Apache-2.0
// Op cases as programs on an emulated GPU, after all passes: the CPU's bits, or close where there
// are sums of products. Every one that is no fusion,
// and some of those that are, whose kernels tests/jit/gpu/gpu_op_case_test.cc runs.
#include <gtest/gtest.h>

#include <string>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/fused_entry.h"
#include "tests/cases/op_cases.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/device/cuda/gpu_op_case_check.h"
#include "tests/device/cuda/recorded_gpu.h"

namespace plimsoll::device::cuda {
namespace {

constexpr int kCaseShards = 4;
// One in so many of the cases that are fusions.
constexpr std::size_t kFusions = 8;

class EmulatedOpCases : public ::testing::TestWithParam<int> {};

TEST_P(EmulatedOpCases, HaveTheBitsOfTheCpu) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
  if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
    GTEST_SKIP() << compiler.status().message();
  }
  const auto cpu = backend::create_kernels(cpu_device()).value();
  RecordingOptions options;
  options.module_bytes = 0;
  RecordedGpu gpu(options, 0, create_emulated_kernels);
  GpuOpCaseTotals totals;
  const auto& table = cases::op_cases();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < table.size(); i += kCaseShards) {
    const cases::OpCase& c = table[i];
    if (i / kCaseShards % kFusions != 0) {
      const auto module = ir::parse_module(c.hlo, c.name);
      if (module.ok() && cases::fused_entry(**module) != nullptr) continue;
    }
    EXPECT_EQ(check_gpu_op_case(c, *gpu.provider(), *cpu, totals), "") << c.name;
  }
  EXPECT_GT(totals.exact, 40);
  EXPECT_GT(totals.close, 2);
  EXPECT_EQ(gpu.close(), "");
}

INSTANTIATE_TEST_SUITE_P(Shards, EmulatedOpCases, ::testing::Range(0, kCaseShards));

}  // namespace
}  // namespace plimsoll::device::cuda
