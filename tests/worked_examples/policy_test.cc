// SPDX-License-Identifier: Apache-2.0
// The policy of docs/contributing.md, "Add a planner policy": a row more in policies.def and a
// function, here one that checkpoints every second result.
#include <gtest/gtest.h>

#include <utility>

#include "runtime/planner/baselines/baselines.h"
#include "runtime/planner/baselines/checkpoints.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "tests/cases/random_module.h"

namespace plimsoll::planner {

std::optional<Schedule> checkpoint_pairs(const Problem& problem, std::int64_t arena_limit,
                                         std::int64_t min_bytes) {
  IdVector<ValueId, char> keep(problem.values.size(), 0);
  for (OpId op(0); op < problem.ops.end_id(); op += 2) {
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0) keep[v] = 1;
    }
  }
  return keep_checkpoints(problem, std::move(keep), arena_limit, min_bytes);
}

namespace {

TEST(PairsPolicy, IsAskedForByItsWordAndItsPlansAreProven) {
  const auto policy = parse_policy("pairs", "--planner");
  ASSERT_TRUE(policy.ok()) << policy.status().to_string();
  EXPECT_EQ(to_string(*policy), "pairs");
  const auto unknown = parse_policy("threes", "--planner");
  EXPECT_NE(unknown.status().message().find("pairs"), std::string::npos);

  int recomputing = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    cases::RandomModuleOptions shape;
    shape.instructions = 60;
    const auto module = cases::random_module(seed, shape);
    ASSERT_NE(module, nullptr);
    const RooflineCostModel costs;
    PlanOptions options;
    options.policy = *policy;
    const auto free = make_plan(*module, costs, options);
    ASSERT_TRUE(free.ok()) << free.status().to_string();
    options.limit_bytes = free->peak_bytes * 9 / 10;
    const auto plan = make_plan(*module, costs, options);
    if (!plan.ok()) continue;
    EXPECT_LE(plan->peak_bytes, options.limit_bytes);
    const Status proof = check_plan(*module, *plan);
    EXPECT_TRUE(proof.ok()) << proof.to_string();
    recomputing += plan->counts.recompute > 0 ? 1 : 0;
  }
  EXPECT_GT(recomputing, 2);
}

}  // namespace
}  // namespace plimsoll::planner
