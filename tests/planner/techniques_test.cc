// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/techniques.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/recorded/recorded_step.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/remat/remat.h"
#include "runtime/planner/remat/search.h"
#include "runtime/planner/residency.h"
#include "tests/cases/random_module.h"
#include "tests/planner/bound_problems.h"
#include "tests/planner/graphs.h"
#include "tests/planner/recorded_graphs.h"

namespace plimsoll::planner {
namespace {

TEST(Techniques, AreNamed) {
  const auto two = parse_techniques("chains,local-search", "--without");
  ASSERT_TRUE(two.ok());
  EXPECT_TRUE(two->contains(Technique::chains) && two->contains(Technique::local_search));
  EXPECT_FALSE(two->contains(Technique::orders));
  for (const char* names : {"", "chain", "chains,", "chains, orders"}) {
    const auto refused = parse_techniques(names, "--without");
    ASSERT_FALSE(refused.ok()) << names;
    EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(refused.status().message().find("--without"), std::string::npos);
    EXPECT_NE(refused.status().message().find("keeping-back"), std::string::npos);
  }
}

// Modules without a technique: plans that are proven, and within the limit.
TEST(Techniques, MayBeLeftOutOfPlansOfModules) {
  std::vector<std::unique_ptr<ir::Module>> modules;
  modules.push_back(training_step(6, 32, 32));
  for (std::uint32_t seed = 0; seed < 2; ++seed) modules.push_back(random_graph(seed, 40));
  for (std::uint64_t seed = 0; seed < 4; ++seed) modules.push_back(cases::random_module(seed, {}));
  const RooflineCostModel costs;
  for (const auto& module : modules) {
    PlanOptions options;
    options.parameters = default_residency(*module);
    const auto unlimited = make_plan(*module, costs, options);
    ASSERT_TRUE(unlimited.ok()) << unlimited.status().to_string();
    for (const int percent : {70, 45}) {
      options.limit_bytes = unlimited->peak_bytes * percent / 100;
      for (const TechniqueInfo& each : all_techniques()) {
        options.without = {};
        options.without.add(each.technique);
        const auto plan = make_plan(*module, costs, options);
        if (!plan.ok()) {
          EXPECT_EQ(plan.status().code(), StatusCode::resource_exhausted) << each.name;
          continue;
        }
        EXPECT_LE(plan->peak_bytes, options.limit_bytes) << each.name;
        const Status proof = check_plan(*module, *plan);
        EXPECT_TRUE(proof.ok()) << each.name << ": " << proof.to_string();
      }
    }
  }
}

TEST(Techniques, ChainsAreSolvedOnlyWithTheirs) {
  constexpr int kOps = 60;
  ProblemMaker make;
  std::vector<ValueId> forward;
  ValueId gradient;
  for (int i = 0; i < 2 * kOps; ++i) {
    const ValueId made = make.value(1);
    std::vector<ValueId> reads;
    if (i < kOps && i > 0) reads = {forward.back()};
    if (i > kOps) reads = {gradient};
    if (i >= kOps && i < 2 * kOps - 1) reads.push_back(forward[at(2 * kOps - 2 - i)]);
    make.op(1, reads, {made});
    i < kOps ? forward.push_back(made) : static_cast<void>(gradient = made);
  }
  make.at(gradient).live_out = true;
  const Problem problem = make.finish();
  TechniqueSet without;
  without.add(Technique::chains);
  const auto solved = rematerialize(problem, 6, 0, 0);
  ASSERT_TRUE(solved.has_value());
  const auto simulated = rematerialize(problem, 6, 0, 0, without);
  EXPECT_TRUE(!simulated || total_seconds(problem, *simulated) > total_seconds(problem, *solved));
}

// Of recorded steps: each of these parts finds something that the others do not.
TEST(Techniques, MayBeLeftOutOfSearches) {
  std::set<std::string> changed;
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    auto step = parse_recorded_step(recorded_chain(30, seed), "chain");
    ASSERT_TRUE(step.ok());
    const Problem& problem = step->problem;
    const std::int64_t limit = evaluate(problem, each_once(problem)).arena_peak * 2 / 5;
    SearchEffort effort;
    effort.scale = 0.1;
    effort.reorder = true;
    const auto with = search_schedule(problem, limit, 0, effort);
    const auto simulated = rematerialize(problem, limit, 0, 0);
    for (const TechniqueInfo& each : all_techniques()) {
      effort.without = {};
      effort.without.add(each.technique);
      const auto found = search_schedule(problem, limit, 0, effort);
      if (found) {
        EXPECT_TRUE(is_valid(problem, *found)) << each.name;
        EXPECT_LE(evaluate(problem, *found).arena_peak, limit) << each.name;
      }
      if (found != with || rematerialize(problem, limit, 0, 0, effort.without) != simulated) {
        changed.emplace(each.name);
      }
    }
  }
  for (const char* name : {"styles", "keeping-back", "weights", "local-search"}) {
    EXPECT_TRUE(changed.contains(name)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::planner
