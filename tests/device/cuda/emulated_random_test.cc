// SPDX-License-Identifier: Apache-2.0
// Small random programs by kernels that are compiled for GPUs, on emulated ones;
// scripts/gpu_random_programs.sh runs as many as asked.
#include <gtest/gtest.h>

#include "jit/gpu/gpu_kernel.h"
#include "tests/device/cuda/gpu_random_check.h"

namespace plimsoll::device::cuda {
namespace {

constexpr int kEmulatedShards = 4;
constexpr std::uint64_t kSeedsOfAShard = 2;

class EmulatedRandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(EmulatedRandomPrograms, HaveTheBitsOfTheCpuAtEveryLimit) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
  if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
    GTEST_SKIP() << compiler.status().message();
  }
  GpuRandomTotals totals;
  const auto first = static_cast<std::uint64_t>(GetParam()) * kSeedsOfAShard;
  for (std::uint64_t seed = first; seed < first + kSeedsOfAShard; ++seed) {
    EXPECT_EQ(check_emulated_program(seed, 1, totals), "") << "seed " << seed;
  }
  EXPECT_GE(totals.programs, 1);
  EXPECT_GE(totals.limits, 2 * totals.programs);
}

INSTANTIATE_TEST_SUITE_P(Shards, EmulatedRandomPrograms, ::testing::Range(0, kEmulatedShards));

}  // namespace
}  // namespace plimsoll::device::cuda
