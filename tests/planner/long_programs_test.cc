// SPDX-License-Identifier: Apache-2.0
// What is done otherwise in programs of many operations.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "benchmarks/graphs/transformer_graph.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/plan_cache.h"
#include "runtime/planner/planner.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

// What becomes a level is searched, though not all that is tried.
TEST(LongPrograms, PlansAreSearched) {
  const auto module = graphs::transformer_step_of_size(900);
  const RooflineCostModel costs;
  PlanOptions searched, simulated;
  simulated.without.add(Technique::weights);
  simulated.without.add(Technique::local_search);
  const auto peak = make_plan(*module, costs, searched);
  ASSERT_TRUE(peak.ok()) << peak.status().to_string();
  double with = 0, without = 0, last = 0;
  for (const int percent : {55, 60, 70, 85}) {
    searched.limit_bytes = simulated.limit_bytes = peak->peak_bytes * percent / 100;
    const auto plan = make_plan(*module, costs, searched);
    const auto other = make_plan(*module, costs, simulated);
    ASSERT_TRUE(plan.ok() && other.ok()) << percent;
    const Status proved = check_plan(*module, *plan);
    EXPECT_TRUE(proved.ok()) << proved.to_string();
    EXPECT_LE(plan->peak_bytes, searched.limit_bytes);
    if (last > 0) {
      EXPECT_LE(plan->predicted_seconds, last) << percent;
    }
    last = plan->predicted_seconds;
    with += plan->predicted_seconds;
    without += other->predicted_seconds;
  }
  EXPECT_LT(with, without);
}

// A kernel of as many instructions as a large program is one step.
TEST(LongPrograms, KeepTheirSearchesByTheirSteps) {
  std::string text = "HloModule m\nf { p = f32[8] parameter(0)\n a0 = f32[8] add(p, p)\n";
  constexpr int kMany = 12'000;
  for (int i = 1; i < kMany; ++i) {
    text += "a" + std::to_string(i) + " = f32[8] add(a" + std::to_string(i - 1) + ", p)\n";
  }
  text += "ROOT r = f32[8] negate(a" + std::to_string(kMany - 1) +
          ") }\nENTRY e { x = f32[8] parameter(0)\n ROOT y = f32[8] fusion(x), kind=kLoop, "
          "calls=f }\n";
  const auto kernel = parse(text);
  EXPECT_TRUE(PlanCache(*kernel).keeps_searches());
  EXPECT_TRUE(PlanCache(*graphs::transformer_step_of_size(9'000)).keeps_searches());
  EXPECT_FALSE(PlanCache(*graphs::transformer_step_of_size(kMany)).keeps_searches());
}

}  // namespace
}  // namespace plimsoll::planner
