// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/check/check.h"

#include <gtest/gtest.h>

#include "runtime/ir/text/text.h"
#include "runtime/planner/cost/cost_model.h"
#include "tests/cases/nested_loops.h"

namespace plimsoll::planner {
namespace {

TEST(ProvePlan, GoesThroughEachPlanOnceHoweverManyLoopsShareIt) {
  for (const int times : {2, 3}) {
    constexpr int kDepth = 30;
    const auto module = ir::parse_module(cases::nested_loops(kDepth, times));
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto plan = make_plan(**module, RooflineCostModel(), {});
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    const PlanProof proof = prove_plan(**module, *plan);
    EXPECT_TRUE(proof.status.ok()) << proof.status.to_string();
    // The entry's, and a condition's and a body's at each level.
    EXPECT_EQ(proof.plans, 1 + 2 * kDepth);
  }
}

}  // namespace
}  // namespace plimsoll::planner
