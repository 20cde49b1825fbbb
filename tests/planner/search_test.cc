// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "benchmarks/recorded/recorded_step.h"
#include "runtime/planner/order/search_orders.h"
#include "runtime/planner/remat/remat.h"
#include "runtime/planner/remat/schedule_editor.h"
#include "tests/planner/recorded_graphs.h"

namespace plimsoll::planner {
namespace {

Problem chain_problem(int layers, std::uint32_t seed) {
  auto step = parse_recorded_step(recorded_chain(layers, seed), "chain");
  EXPECT_TRUE(step.ok()) << step.status().to_string();
  return std::move(step->problem);
}

TEST(Search, IsNeverSlowerThanTheSimulationsAndFits) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const Problem problem = chain_problem(24, seed);
    const std::int64_t peak = evaluate(problem, each_once(problem)).arena_peak;
    for (const int percent : {80, 50, 35}) {
      const std::int64_t limit = peak * percent / 100;
      const auto simulated = rematerialize(problem, limit, 0, 0);
      SearchEffort effort;
      effort.scale = 0.3;
      const auto found = search_schedule(problem, limit, 0, effort);
      ASSERT_EQ(simulated.has_value() && !found.has_value(), false);
      if (!found) continue;
      ASSERT_TRUE(is_valid(problem, *found));
      EXPECT_LE(evaluate(problem, *found).arena_peak, limit);
      if (!simulated) continue;
      EXPECT_LE(total_seconds(problem, *found), total_seconds(problem, *simulated));
    }
  }
}

TEST(Search, EqualInputGivesEqualSchedules) {
  const Problem problem = chain_problem(20, 9);
  const std::int64_t limit = evaluate(problem, each_once(problem)).arena_peak / 2;
  SearchEffort effort;
  effort.scale = 0.3;
  const auto one = search_schedule(problem, limit, 0, effort);
  const auto two = search_schedule(problem, limit, 0, effort);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one, *two);
}

TEST(Search, KeepsFirstExecutionsInOrderUnlessAsked) {
  const Problem problem = chain_problem(20, 4);
  const std::int64_t limit = evaluate(problem, each_once(problem)).arena_peak * 2 / 5;
  SearchEffort effort;
  effort.scale = 0.3;
  const auto found = search_schedule(problem, limit, 0, effort);
  ASSERT_TRUE(found);
  std::vector<OpId> firsts;
  for (const OpId op : *found) {
    if (std::find(firsts.begin(), firsts.end(), op) == firsts.end()) firsts.push_back(op);
  }
  EXPECT_TRUE(std::is_sorted(firsts.begin(), firsts.end()));
}

TEST(Search, GoesOnFromAGivenSchedule) {
  const Problem problem = chain_problem(20, 5);
  const std::int64_t limit = evaluate(problem, each_once(problem)).arena_peak / 2;
  SearchEffort effort;
  const auto start = search_schedule(problem, limit, 0, effort);
  ASSERT_TRUE(start);
  effort.level = SearchEffort::Level::quick;
  const auto found = search_schedule(problem, limit, 0, effort, {&*start, 1});
  ASSERT_TRUE(found);
  EXPECT_LE(total_seconds(problem, *found), total_seconds(problem, *start));
}

// Two branches that were recorded side by side and need less room one after the other.
TEST(Search, OrdersRespectWhatIsReadAndKeepTheLastOpLast) {
  const auto step = parse_recorded_step(
      "211 6 6 5 1\n"
      "10 1 0\n100 0 0\n100 0 0\n1 0 0\n1 0 0\n1 0 1\n"
      "0 -1\n1 0\n2 1\n3 2\n4 3\n5 4\n"
      "5 1 0 1 1 1\n5 1 0 1 2 1\n5 1 1 1 3 1\n5 1 2 1 4 1\n5 2 3 4 1 5 1\n"
      "5\n",
      "branches");
  ASSERT_TRUE(step.ok()) << step.status().to_string();
  const Problem& problem = step->problem;
  const auto orders = search_orders(problem);
  EXPECT_EQ(orders.front(), each_once(problem));
  EXPECT_EQ(evaluate(problem, orders.front()).arena_peak, 201);
  std::int64_t least = 201;
  for (const std::vector<OpId>& order : orders) {
    ASSERT_TRUE(is_valid(problem, order));
    EXPECT_EQ(order.size(), problem.ops.size());
    EXPECT_EQ(order.back(), problem.ops.end_id() - 1);
    EXPECT_EQ(order_of_first_runs(problem, order), order);
    least = std::min(least, evaluate(problem, order).arena_peak);
  }
  EXPECT_EQ(least, 102);
  // So that nothing is computed again.
  SearchEffort effort;
  effort.reorder = true;
  const auto found = search_schedule(problem, 102, 0, effort);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->size(), problem.ops.size());
}

TEST(Search, ReorderedSchedulesAreValidFitAndEndWithTheLastOp) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const Problem problem = chain_problem(18, seed);
    const std::int64_t limit = evaluate(problem, each_once(problem)).arena_peak / 2;
    SearchEffort effort;
    effort.scale = 0.3;
    effort.reorder = true;
    const auto found = search_schedule(problem, limit, 0, effort);
    ASSERT_TRUE(found);
    ASSERT_TRUE(is_valid(problem, *found));
    EXPECT_LE(evaluate(problem, *found).arena_peak, limit);
    EXPECT_EQ(order_of_first_runs(problem, *found).back(), problem.ops.end_id() - 1);
  }
}

// The editor's profile is the evaluator's after any changes, and undoing them restores it.
TEST(ScheduleEditor, AgreesWithTheEvaluator) {
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    const Problem problem = chain_problem(16, seed);
    const std::int64_t peak = evaluate(problem, each_once(problem)).arena_peak;
    const auto start = rematerialize(problem, peak / 2, 0, 0);
    ASSERT_TRUE(start);
    ScheduleEditor editor(problem);
    editor.load(*start);
    EXPECT_EQ(editor.schedule(), *start);
    EXPECT_EQ(editor.profile().max(), evaluate(problem, *start).arena_peak);
    const std::int64_t before = editor.profile().max();
    while (!editor.again().empty()) {
      std::int32_t slot = -1;
      for (const std::int32_t s : editor.again()) {
        if (editor.removable(s)) slot = std::max(slot, s);
      }
      ASSERT_GE(slot, 0);
      editor.remove(slot);
      const Schedule now = editor.schedule();
      ASSERT_TRUE(is_valid(problem, now));
      EXPECT_EQ(editor.profile().max(), evaluate(problem, now).arena_peak);
    }
    EXPECT_EQ(editor.profile().max(), peak);
    editor.undo(0);
    EXPECT_EQ(editor.schedule(), *start);
    EXPECT_EQ(editor.profile().max(), before);
  }
}

}  // namespace
}  // namespace plimsoll::planner
