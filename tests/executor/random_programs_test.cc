// SPDX-License-Identifier: Apache-2.0
// 24 random programs at random limits, with remedies and tiers that change from one to the next;
// scripts/random_programs.sh runs as many as asked.
#include <gtest/gtest.h>

#include "tests/executor/random_program_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

constexpr int kProgramShards = 8;
constexpr int kSeedsPerShard = 3;

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, GiveTheSameBitsAtEveryLimitAndStayUnderIt) {
  auto provider = create_provider();
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
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomPrograms, ::testing::Range(0, kProgramShards));

}  // namespace
}  // namespace plimsoll
