// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/timeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::planner {
namespace {

TEST(Timeline, ATransferTakesFromComputeStepsWhatItsTierSays) {
  Problem problem;
  Op compute, copy;
  compute.seconds = 1;
  copy.kind = StepKind::swap_out;
  copy.engine = engine_of(MemorySpace::host, true);
  copy.seconds = 2;
  copy.taken_seconds = 0.5;
  problem.ops = {compute, copy};
  const std::vector<OpId> schedule{OpId(1), OpId(0)};
  EXPECT_EQ(simulate(problem, schedule).seconds, 1.5);
  EXPECT_EQ(predicted_seconds(problem, schedule), 1.5);
}

// Its wait is none, and it neither waits for its tier's engine nor keeps it.
TEST(Timeline, ASynchronousTransferIsOverWhenTheNextStepBegins) {
  Problem problem;
  Op beside, copy, wait;
  beside.kind = copy.kind = StepKind::swap_out;
  beside.engine = copy.engine = engine_of(MemorySpace::host, true);
  beside.seconds = 10;
  copy.synchronous = true;
  copy.taken_seconds = 3;
  wait.kind = StepKind::swap_wait;
  wait.transfer = OpId(1);
  Op last = wait;
  last.transfer = OpId(0);
  problem.ops = {beside, copy, wait, last};
  const std::vector<OpId> schedule{OpId(0), OpId(1), OpId(2), OpId(3)};
  const Timeline line = simulate(problem, schedule);
  EXPECT_EQ(line.stall[2], 0);
  EXPECT_EQ(line.start[3], 3);
  EXPECT_EQ(line.stall[3], 7);
  EXPECT_EQ(line.seconds, 10);
  EXPECT_EQ(predicted_seconds(problem, schedule), 10);
}

TEST(Timeline, ATransferIsSynchronousWhereThatTakesLess) {
  Tier tier{.bytes = 1 << 30,
            .out_bytes_per_second = 10e9,
            .in_bytes_per_second = 10e9,
            .latency_seconds = 10e-6,
            .compute_share = 0.5};
  constexpr std::int64_t kSmall = 10'000, kLarge = 100'000'000;
  EXPECT_FALSE(time_transfer(tier, kSmall, true).synchronous);  // nothing is known of such
  tier.synchronous_out_bytes_per_second = tier.synchronous_in_bytes_per_second = 2e9;
  for (const bool out : {false, true}) {
    const TransferTime small = time_transfer(tier, kSmall, out);
    EXPECT_TRUE(small.synchronous);
    EXPECT_EQ(small.engine_seconds, 0);
    EXPECT_DOUBLE_EQ(small.taken_seconds, 5e-6);
    const TransferTime large = time_transfer(tier, kLarge, out);
    EXPECT_FALSE(large.synchronous);
    EXPECT_DOUBLE_EQ(large.engine_seconds, 0.01001);
    EXPECT_DOUBLE_EQ(large.taken_seconds, 0.005005);
  }
  tier.compute_share = 0;  // an engine of its own
  EXPECT_FALSE(time_transfer(tier, kSmall, true).synchronous);
}

}  // namespace
}  // namespace plimsoll::planner
