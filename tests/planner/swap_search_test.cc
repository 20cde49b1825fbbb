// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remedies/swap_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remat/search.h"
#include "runtime/planner/remedies/remedies_apply.h"
#include "runtime/planner/remedies/remedies_find.h"
#include "runtime/planner/remedies/swap_cover.h"
#include "runtime/planner/remedies/swap_schedule.h"
#include "tests/planner/bound_problems.h"

namespace plimsoll::planner {
namespace {

std::optional<Schedule> search_quickly(const Problem& problem, std::int64_t limit,
                                       std::span<const Schedule> starts, double) {
  SearchEffort effort;
  effort.level = SearchEffort::Level::quick;
  return search_schedule(problem, limit, 0, effort, starts);
}

// Bytes on a tier from the start of a copy out to the end of the last copy in.
std::int64_t tier_peak(const SwapSchedule& swaps, MemorySpace tier) {
  Problem there = *swaps.problem;
  for (Value& value : there.values) {
    value.home = value.home == placement_on(tier) ? Home::arena : Home::host;
  }
  for (Op& op : there.ops) op.workspace = 0;
  return evaluate(there, swaps.schedule).arena_peak;
}

// Of a covered schedule, as the rest of the planner sees it.
void check(const SwapModel& model, const CoveredSchedule& covered) {
  const SwapSchedule swaps = with_transfers(model, covered);
  ASSERT_TRUE(is_valid(*swaps.problem, swaps.schedule));
  EXPECT_TRUE(keeps_transfers(*swaps.problem, swaps.schedule));
  EXPECT_LE(evaluate(*swaps.problem, swaps.schedule).arena_peak, model.limit());
  EXPECT_LE(predicted_seconds(*swaps.problem, swaps.schedule), covered.nanoseconds * 1e-9 + 1e-8);
  for (const MemorySpace tier : kTiers) {
    EXPECT_LE(tier_peak(swaps, tier), model.tiers()[tier].bytes);
  }
}

PlanOptions swap_options(double speed) {
  PlanOptions options;
  options.remedies.compress = false;
  options.host.bytes = kUnlimited;
  options.host.out_bytes_per_second = options.host.in_bytes_per_second = speed;
  options.host.latency_seconds = 0;
  return options;
}

// Ops of a second on values of 10 bytes.
Problem training_chain_of(int length) {
  return training_chain(std::vector<double>(at(length), 1.0),
                        std::vector<std::int64_t>(at(length), 10));
}

TEST(SwapSearch, CopiesHideWhereTheLinkIsFastEnough) {
  const Problem problem = training_chain_of(12);
  const std::int64_t peak = evaluate(problem, each_once(problem)).arena_peak;
  const PlanOptions options = swap_options(40);
  const auto forms = find_forms(problem, options);
  const SwapModel model(problem, forms, options, peak * 7 / 10);
  const std::vector<Schedule> starts{each_once(problem)};
  const auto found = search_swaps(model, SwapEffort::brief, search_quickly, starts);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->nanoseconds, model.once_nanoseconds());
  EXPECT_GT(found->swapped_bytes, 0);
  check(model, *found);
}

TEST(SwapSearch, RecomputesBesideALinkThatIsTooSlow) {
  const Problem problem = training_chain_of(24);
  const std::int64_t peak = evaluate(problem, each_once(problem)).arena_peak;
  const PlanOptions options = swap_options(3);
  const auto forms = find_forms(problem, options);
  const SwapModel model(problem, forms, options, peak * 4 / 10);
  const std::vector<Schedule> starts{each_once(problem)};
  const auto waits = search_swaps(model, SwapEffort::brief, {}, starts);
  const auto both = search_swaps(model, SwapEffort::brief, search_quickly, starts);
  const auto recomputes = search_quickly(problem, model.limit(), {}, 1);
  ASSERT_TRUE(recomputes.has_value());
  ASSERT_TRUE(both.has_value());
  check(model, *both);
  EXPECT_GT(both->swapped_bytes, 0);
  EXPECT_LT(both->nanoseconds, 1e9 * total_seconds(problem, *recomputes));
  if (waits) {
    EXPECT_LT(both->nanoseconds, waits->nanoseconds);
  }
}

TEST(SwapSearch, TwoTiersCarryMoreThanOne) {
  const Problem problem = training_chain_of(24);
  const std::int64_t peak = evaluate(problem, each_once(problem)).arena_peak;
  PlanOptions options = swap_options(5);
  const std::vector<Schedule> starts{each_once(problem)};
  double before = kInfinite;
  for (const double disk : {0.0, 5.0}) {
    options.disk = options.host;
    options.disk.bytes = disk > 0 ? kUnlimited : 0;
    const auto forms = find_forms(problem, options);
    const SwapModel model(problem, forms, options, peak * 4 / 10);
    const auto found = search_swaps(model, SwapEffort::brief, search_quickly, starts);
    ASSERT_TRUE(found.has_value());
    check(model, *found);
    EXPECT_EQ(found->tier_peak.disk > 0, disk > 0);
    EXPECT_LT(found->nanoseconds, before);
    before = found->nanoseconds;
  }
}

TEST(SwapSearch, SchedulesOfRandomProblemsKeepEveryLimit) {
  std::mt19937 rng(7);
  int made = 0, restored = 0;
  for (int i = 0; i < 150; ++i) {
    const Problem problem = random_problem(rng, 10 + i % 30);
    const Evaluation all = evaluate(problem, each_once(problem));
    PlanOptions options = swap_options(static_cast<double>(all.arena_peak + 1) *
                                       (0.2 + 0.3 * (i % 7)) / (all.seconds + 1e-3));
    if (i % 3 == 0) options.host.bytes = all.arena_peak / 3;
    if (i % 4 == 0) options.host.compute_share = 0.2;
    if (i % 5 == 0) options.disk = options.host;
    const auto forms = find_forms(problem, options);
    const SwapModel model(problem, forms, options, all.arena_peak * (5 + i % 5) / 10);
    const std::vector<Schedule> starts{each_once(problem)};
    const auto found = search_swaps(model, SwapEffort::brief, search_quickly, starts);
    if (!found) continue;
    SCOPED_TRACE(i);
    check(model, *found);
    ++made;
    restored += found->swapped_bytes > 0;
  }
  EXPECT_GT(made, 40);
  EXPECT_GT(restored, 20);
}

}  // namespace
}  // namespace plimsoll::planner
