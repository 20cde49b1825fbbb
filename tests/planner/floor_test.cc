// SPDX-License-Identifier: Apache-2.0
// The floor is the smallest limit that has a plan, whoever asks, in whatever order.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>

#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/ladder/module_planner.h"
#include "tests/cases/random_module.h"

namespace plimsoll::planner {
namespace {

const RooflineCostModel kCosts;

std::unique_ptr<ModulePlanner> planner_of(const ir::Module& module, const PlanOptions& options) {
  auto planner = ModulePlanner::create(module, kCosts, options);
  EXPECT_TRUE(planner.ok()) << planner.status().to_string();
  return std::move(planner).value();
}

constexpr int kFloorShards = 8;
constexpr int kFloorSeedsPerShard = 2;
constexpr int kSeedsWithTiersPerShard = 8;

class FloorTest : public ::testing::TestWithParam<int> {};

TEST_P(FloorTest, DoesAndOneByteLessDoesNot) {
  int below_peak = 0;
  for (int k = 0; k < kFloorSeedsPerShard; ++k) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * kFloorSeedsPerShard + k);
    cases::RandomModuleOptions shape;
    shape.instructions = 25 + k * 20;
    shape.gates = seed % 3 == 0;
    shape.large_constants = seed % 4 == 1;
    const auto module = cases::random_module(seed, shape);
    ASSERT_NE(module, nullptr);
    PlanOptions options;
    options.remedies.swap = GetParam() % 2 == 0;
    if (options.remedies.swap) options.host.bytes = std::int64_t{1} << 30;
    const std::int64_t floor = planner_of(*module, options)->floor().bytes;
    const std::string what = "seed " + std::to_string(seed);

    // Asked at once.
    const auto at_floor = planner_of(*module, options)->plan(floor);
    EXPECT_TRUE(at_floor.ok()) << what << ": " << at_floor.status().to_string();
    if (at_floor.ok()) {
      EXPECT_LE(at_floor->peak_bytes, floor) << what;
    }
    const auto below = planner_of(*module, options)->plan(floor - 1);
    ASSERT_FALSE(below.ok()) << what << ": floor " << floor << ", plan of " << below->peak_bytes;
    EXPECT_EQ(below.status().shortage()->floor_bytes, floor) << what;

    // Asked after limits that are enough: a plan that was packed only so far is packed further.
    const auto above = planner_of(*module, options);
    const auto unlimited = above->plan(kUnlimited);
    ASSERT_TRUE(unlimited.ok()) << what << ": " << unlimited.status().to_string();
    below_peak += floor < unlimited->peak_bytes;
    for (const std::int64_t percent : {130, 115, 108, 104, 102, 101}) {
      EXPECT_TRUE(above->plan(floor * percent / 100).ok()) << what << ": " << percent << " %";
    }
    EXPECT_EQ(above->floor().bytes, floor) << what;

    // Asked after other limits: none changes the answer, and what is accepted is no less than it.
    const auto planner = planner_of(*module, options);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 8; ++i) {
      const std::int64_t limit =
          floor * 9 / 10 + static_cast<std::int64_t>(random() % 1000) * (floor / 5 + 1) / 1000;
      EXPECT_EQ(planner->plan(limit).ok(), limit >= floor) << what << ": " << limit;
    }
    EXPECT_EQ(planner->floor().bytes, floor) << what;
    EXPECT_TRUE(planner->plan(floor).ok()) << what;
    EXPECT_FALSE(planner->plan(floor - 1).ok()) << what;
  }
  EXPECT_GT(below_peak, 0);
}

// A search that has more ways to go may end higher.
TEST_P(FloorTest, IsNotRaisedByATier) {
  for (int k = 0; k < kSeedsWithTiersPerShard; ++k) {
    const auto seed = static_cast<std::uint64_t>(1000 + GetParam() * kSeedsWithTiersPerShard + k);
    cases::RandomModuleOptions shape;
    shape.instructions = 30 + k * 7;
    const auto module = cases::random_module(seed, shape);
    ASSERT_NE(module, nullptr);
    PlanOptions options;
    const std::int64_t without = planner_of(*module, options)->floor().bytes;
    options.remedies.swap = true;
    options.host.bytes = std::int64_t{1} << 30;
    const std::int64_t floor = planner_of(*module, options)->floor().bytes;
    EXPECT_LE(floor, without) << "seed " << seed;
    EXPECT_TRUE(planner_of(*module, options)->plan(without).ok()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FloorTest, ::testing::Range(0, kFloorShards));

}  // namespace
}  // namespace plimsoll::planner
