// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/timeline.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::planner {
namespace {

TEST(Timeline, ATransferTakesFromComputeStepsWhatItsTierSays) {
  Problem problem;
  problem.ops.resize(2);
  problem.ops[0].seconds = 1;
  problem.ops[1].kind = StepKind::swap_out;
  problem.ops[1].engine = engine_of(MemorySpace::host, true);
  problem.ops[1].seconds = 2;
  problem.ops[1].taken_seconds = 0.5;
  const std::vector<OpId> schedule{1, 0};
  EXPECT_EQ(simulate(problem, schedule).seconds, 1.5);
  EXPECT_EQ(predicted_seconds(problem, schedule), 1.5);
}

}  // namespace
}  // namespace plimsoll::planner
