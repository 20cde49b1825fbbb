// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/cache_misses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kValue = 1 << 16;

// Buffers of kValue bytes at multiples of it in the arena; each step touches one.
Plan plan_of(std::initializer_list<int> touched) {
  Plan plan;
  for (const int place : touched) {
    Buffer buffer;
    buffer.offset = place * kValue;
    buffer.bytes = kValue;
    plan.arena_bytes = std::max(plan.arena_bytes, buffer.offset + buffer.bytes);
    Step step;
    step.outputs = {plan.buffers.push_back(buffer)};
    plan.steps.push_back(step);
  }
  return plan;
}

std::vector<double> in_values(const Plan& plan, int cache_values) {
  std::vector<double> missed =
      missed_bytes(plan, cache_values * static_cast<double>(kValue)).items();
  for (double& bytes : missed) bytes /= kValue;
  return missed;
}

TEST(CacheMisses, AnArenaThatFitsIsKeptFromRunToRun) {
  EXPECT_EQ(in_values(plan_of({0, 1, 2}), 3), (std::vector<double>{0, 0, 0}));
}

TEST(CacheMisses, WhatDoesNotFitIsMissedInTurns) {
  EXPECT_EQ(in_values(plan_of({0, 1, 2, 3}), 3), (std::vector<double>{1, 1, 1, 1}));
}

TEST(CacheMisses, WhatWasTouchedLastIsKept) {
  EXPECT_EQ(in_values(plan_of({0, 1, 0, 2, 3, 0}), 2), (std::vector<double>{0, 1, 0, 1, 1, 1}));
}

TEST(CacheMisses, AddressesCountAndNotValues) {
  // Two values in one place: the second finds its bytes in the cache.
  EXPECT_EQ(in_values(plan_of({0, 0, 1, 2}), 1), (std::vector<double>{1, 0, 1, 1}));
}

TEST(CacheMisses, ACallersBufferIsNoPartOfTheArena) {
  Plan plan = plan_of({0, 0});
  plan.buffers.back().placement = Placement::parameter;
  EXPECT_EQ(in_values(plan, 1), (std::vector<double>{1, 1}));
  EXPECT_EQ(in_values(plan, 2), (std::vector<double>{0, 0}));
}

TEST(CacheMisses, WithoutACacheNothingIsCounted) {
  EXPECT_EQ(missed_bytes(plan_of({0, 1}), 0).items(), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace plimsoll::planner
