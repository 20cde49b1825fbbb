// SPDX-License-Identifier: Apache-2.0
// 24 random programs at random limits, with remedies and tiers that change from one to the next;
// scripts/random_programs.sh runs as many as asked.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/executor/random_program_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

constexpr int kProgramShards = 8;
constexpr int kSeedsPerShard = 3;

class RandomPrograms : public ::testing::TestWithParam<int> {};

// Of every other shard all loops that can be are one function, however short.
TEST_P(RandomPrograms, GiveTheSameBitsAtEveryLimitAndStayUnderIt) {
  if (GetParam() % 2 == 0) ::setenv("PLIMSOLL_JIT_LOOPS", "always", 1);
  auto provider = create_provider();
  ::unsetenv("PLIMSOLL_JIT_LOOPS");
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  testing::RandomProgramTotals totals;
  for (int i = 0; i < kSeedsPerShard; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kSeedsPerShard + i);
    EXPECT_EQ(testing::check_random_program(seed, **provider, 3, totals), "") << "seed " << seed;
  }
  // Limits below the peak must have forced something.
  EXPECT_GT(totals.recomputing_plans + totals.swapping_plans + totals.encoding_plans,
            kSeedsPerShard / 2);
  EXPECT_GT(totals.joint_launches, totals.limits);
  // Seed 7 has large constants, and may swap.
  if (GetParam() * kSeedsPerShard == 6) {
    EXPECT_GT(totals.streaming_plans, 0);
  }
}

// By the kernels' threads, of loops' residuals slice by slice, too.
TEST(RandomProgram, SwapsSynchronously) {
  auto provider = create_provider();
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  testing::RandomProgramTotals totals;
  for (const std::uint64_t seed : {16, 19}) {
    EXPECT_EQ(testing::check_random_program(seed, **provider, 3, totals), "") << "seed " << seed;
  }
  EXPECT_GT(totals.synchronous_plans, 0);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPrograms, ::testing::Range(0, kProgramShards));

// What is swapped out at its floor has 64 KiB live at most, for which a packing takes 69,952 bytes.
TEST(RandomProgram, SwapsNoMoreThanASmallTierHolds) {
  constexpr std::uint64_t kSeed = 301785;
  auto provider = create_provider();
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  testing::RandomProgramTotals totals;
  EXPECT_EQ(testing::check_random_program(kSeed, **provider, 1, totals), "");
  EXPECT_GT(totals.swapping_plans, 0);
}

// In the order for collectives its fastest plan packs tighter than in that of the least peak, which
// a limit of that peak must not ask for.
TEST(RandomProgram, IsAsFastUnderALimitOfItsPeak) {
  constexpr std::uint64_t kSeed = 31417769;
  auto provider = create_provider();
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  testing::RandomProgramTotals totals;
  EXPECT_EQ(testing::check_random_program(kSeed, **provider, 1, totals), "");
  EXPECT_GT(totals.beside, 0);
}

// A kernel in a loop writes a value as its code.
TEST(RandomProgram, HasKernelsThatEncodeInLoopsOfOneFunction) {
  constexpr std::uint64_t kSeed = 5000355;
  ::setenv("PLIMSOLL_JIT_LOOPS", "always", 1);
  auto provider = create_provider();
  ::unsetenv("PLIMSOLL_JIT_LOOPS");
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  testing::RandomProgramTotals totals;
  EXPECT_EQ(testing::check_random_program(kSeed, **provider, 1, totals), "");
  EXPECT_GT(totals.encoding_kernels, 0);
}

}  // namespace
}  // namespace plimsoll
