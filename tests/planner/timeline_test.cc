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

}  // namespace
}  // namespace plimsoll::planner
