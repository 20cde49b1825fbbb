// SPDX-License-Identifier: Apache-2.0
// The tier of docs/contributing.md, "Add a tier": a row more in memory_spaces.def and a class.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/plan_json.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/executor/test_provider.h"
#include "tests/worked_examples/remote_tier.h"

namespace plimsoll {
namespace {

TEST(RemoteTier, TakesWhatLimitsLeaveNoPlaceFor) {
  int swapped = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    cases::RandomModuleOptions shape;
    shape.instructions = 60;
    std::unique_ptr<ir::Module> module = cases::random_module(seed, shape);
    ASSERT_NE(module, nullptr);
    const std::vector<ir::Literal> arguments = cases::random_arguments(*module, seed);
    const auto program = executor::Program::create(std::move(module), provider(), {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();

    const auto run = [&](std::int64_t limit, memory::Tiers tiers) {
      planner::PlanPolicy policy;
      policy.remedies = {.recompute = false, .compress = false, .swap = true};
      auto budget = memory::Budget::create(device::default_device(), limit, std::move(tiers));
      return std::pair(executor::make_executable(*program, policy, {}, *budget), budget);
    };
    const auto [free, unlimited] = run(planner::kUnlimited, {});
    ASSERT_TRUE(free.ok()) << free.status().to_string();
    const auto expected = executor::run_on_host(**free, *unlimited, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();

    memory::Tiers tiers;
    const auto remote = memory::RemoteTier::create(device::default_device(), std::int64_t{1} << 24);
    ASSERT_TRUE(remote.ok()) << remote.status().to_string();
    tiers.remote = *remote;
    const std::int64_t peak = (*free)->plan().peak_bytes;
    const auto [limited, budget] = run(peak * 9 / 10, tiers);
    if (!limited.ok()) continue;  // its floor is higher
    const planner::Plan& plan = (*limited)->plan();
    const Status proof = planner::check_plan((*limited)->program().module(), plan);
    EXPECT_TRUE(proof.ok()) << proof.to_string();
    const auto result = executor::run_on_host(**limited, *budget, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(*expected, *result), "") << seed;
    EXPECT_LE(budget->statistics().peak_bytes, peak * 9 / 10);
    EXPECT_EQ(planner::plan_json(plan)["remote_bytes"], plan.tier_bytes.remote);
    EXPECT_EQ((*remote)->statistics().peak_bytes, plan.tier_bytes.remote);
    swapped += plan.tier_bytes.remote > 0 ? 1 : 0;
  }
  EXPECT_GT(swapped, 2);
}

}  // namespace
}  // namespace plimsoll
