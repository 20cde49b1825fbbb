// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/flow/line_flow.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/problem/schedule.h"
#include "tests/planner/bound_problems.h"
#include "tests/planner/graphs.h"

namespace plimsoll::planner {
namespace {

std::int64_t peak_of_keeping_all(const Problem& problem) {
  Schedule once;
  for (const OpId op : problem.ops.ids()) once.push_back(op);
  return evaluate(problem, once).arena_peak;
}

TEST(Bound, IsNeverAboveTheOptimumOfRandomProblems) {
  std::mt19937 rng(7);
  int bound = 0, infeasible = 0;
  for (int i = 0; i < 400; ++i) {
    const Problem problem = random_problem(rng, 5 + i % 5);
    const BoundModel model = make_bound_model(problem, 8);
    const std::int64_t peak = peak_of_keeping_all(problem);
    for (std::int64_t limit = peak; limit >= 0; --limit) {
      const double optimum = exhaustive_seconds(problem, limit);
      const LowerBound lower = lower_bound(model, limit);
      ASSERT_LE(lower.seconds, optimum * (1 + 1e-9)) << "problem " << i << " limit " << limit;
      if (lower.seconds > model.base_seconds + 0.5) ++bound;
      if (std::isinf(lower.seconds)) ++infeasible;
      if (std::isinf(optimum)) break;
    }
  }
  EXPECT_GT(bound, 200);
  EXPECT_GT(infeasible, 100);
}

TEST(Bound, FindsMostOfWhatTrainingChainsMustPay) {
  std::mt19937 rng(11);
  double paid = 0, proven = 0;
  for (int i = 0; i < 20; ++i) {
    std::vector<double> seconds;
    std::vector<std::int64_t> bytes;
    for (int k = 0; k < 6; ++k) {
      seconds.push_back(1 + rng() % 5);
      bytes.push_back(1 + static_cast<std::int64_t>(rng() % 3));
    }
    const Problem problem = training_chain(seconds, bytes);
    const BoundModel model = make_bound_model(problem, 8);
    for (std::int64_t limit = peak_of_keeping_all(problem); limit > 0; --limit) {
      const double optimum = exhaustive_seconds(problem, limit);
      if (std::isinf(optimum)) break;
      const LowerBound lower = lower_bound(model, limit);
      ASSERT_LE(lower.seconds, optimum * (1 + 1e-9));
      paid += optimum - model.base_seconds;
      proven += lower.seconds - model.base_seconds;
    }
  }
  EXPECT_GT(proven, 0.5 * paid);
}

TEST(Bound, CountsWhatADeadOperandCosts) {
  // c reads b reads a; c is wanted late, b is dead by then, and a stays for its own late reader.
  ProblemMaker make;
  const ValueId a = make.value(1);
  make.op(100, {}, {a});
  const ValueId b = make.value(4);
  make.op(2, {a}, {b});
  const ValueId c = make.value(4);
  make.op(3, {b}, {c});
  const ValueId big = make.value(8);
  make.op(1, {}, {big});
  make.op(1, {big}, {make.value(1)});
  make.op(1, {c}, {make.value(1)});
  make.op(1, {a}, {make.value(1)});
  const Problem problem = make.finish();
  const BoundModel model = make_bound_model(problem, 8);
  const LowerBound lower = lower_bound(model, 10);
  EXPECT_NEAR(lower.seconds, model.base_seconds + 5, 1e-6);
  EXPECT_EQ(exhaustive_seconds(problem, 10), model.base_seconds + 5);
}

TEST(Bound, CountsWhatSeveralRecomputationsShareOnce) {
  // d reads b and c, both read a, a reads z; all but d are dead when d is wanted again.
  ProblemMaker make;
  const ValueId z = make.value(4);
  make.op(10, {}, {z});
  const ValueId a = make.value(4);
  make.op(1, {z}, {a});
  const ValueId b = make.value(4);
  make.op(1, {a}, {b});
  const ValueId c = make.value(4);
  make.op(1, {a}, {c});
  const ValueId d = make.value(4);
  make.op(1, {b, c}, {d});
  const ValueId big = make.value(16);
  make.op(1, {}, {big});
  make.op(1, {big}, {make.value(1)});
  make.op(1, {d}, {make.value(1)});
  const Problem problem = make.finish();
  const BoundModel model = make_bound_model(problem, 16);
  EXPECT_EQ(exhaustive_seconds(problem, 17), model.base_seconds + 14);
  const double lower = lower_bound(model, 17).seconds;
  EXPECT_LE(lower, model.base_seconds + 14);
  EXPECT_NEAR(lower, model.base_seconds + 14, 1e-4);
}

TEST(Bound, LetsValuesGoElsewhereAtTheirLeastCost) {
  // Making `a` again takes 100, its small form 3 for the value and 2 for the interval.
  ProblemMaker make;
  const ValueId a = make.value(8);
  make.op(100, {}, {a});
  const ValueId big = make.value(8);
  make.op(1, {}, {big});
  make.op(1, {big}, {make.value(1)});
  make.op(1, {a}, {make.value(1)});
  const Problem problem = make.finish();
  const std::vector<Substitute> small{{a, 2, 3, 2, OpId(0), {}}};
  const std::vector<Substitute> gone{{a, 0, 0, 0, OpId(0), {}}};
  const double base = make_bound_model(problem, 8).base_seconds;
  EXPECT_NEAR(lower_bound(make_bound_model(problem, 8), 12).seconds, base + 100, 1e-6);
  EXPECT_NEAR(lower_bound(make_bound_model(problem, 8, small), 12).seconds, base + 5, 1e-6);
  EXPECT_EQ(lower_bound(make_bound_model(problem, 8, gone), 12).seconds, base);
}

TEST(Bound, NamesALimitThatNothingFits) {
  std::mt19937 rng(3);
  for (int i = 0; i < 100; ++i) {
    const Problem problem = random_problem(rng, 7);
    const std::int64_t least = least_arena_bytes(make_bound_model(problem, 1));
    EXPECT_LE(least, peak_of_keeping_all(problem));
    EXPECT_TRUE(std::isinf(exhaustive_seconds(problem, least - 1)));
  }
}

TEST(Bound, RisesAsTheLimitFalls) {
  std::mt19937 rng(5);
  const Problem problem = training_chain({3, 1, 4, 1, 5, 9, 2, 6}, {5, 3, 5, 8, 9, 7, 9, 3});
  const BoundModel model = make_bound_model(problem, 8);
  double before = 0;
  for (std::int64_t limit = peak_of_keeping_all(problem); limit > 0; --limit) {
    const double now = lower_bound(model, limit).seconds;
    EXPECT_GE(now, before * 0.98);
    before = now;
  }
  EXPECT_TRUE(std::isinf(before));
}

TEST(Bound, HoldsForPlansOfModules) {
  const auto module = training_step(8, 64, 64, true);
  const RooflineCostModel cost_model;
  PlanOptions options;
  const auto planner = *ModulePlanner::create(*module, cost_model, options);
  const std::int64_t floor = planner->floor().bytes;
  const std::int64_t peak = planner->plan(kUnlimited)->peak_bytes;
  double most = 0;
  for (int i = 0; i <= 20; ++i) {
    const Plan plan = *planner->plan(floor + (peak - floor) * i / 20);
    EXPECT_LE(plan.lower_bound_seconds, plan.predicted_seconds);
    EXPECT_GE(plan.lower_bound_seconds, plan.unlimited_seconds * (1 - 1e-12));
    most = std::max(most, plan.lower_bound_seconds / plan.unlimited_seconds);
  }
  EXPECT_GT(most, 1.01);
}

TEST(LinePrices, FindsTheOptimumThatItsPricesProve) {
  std::mt19937 rng(13);
  for (int i = 0; i < 200; ++i) {
    const int time_steps = 1 + static_cast<int>(rng() % 30);
    std::vector<std::int64_t> available;
    for (int t = 0; t < time_steps; ++t) available.push_back(static_cast<std::int64_t>(rng() % 20));
    std::vector<Stretch> stretches;
    for (int k = 0; k < 60; ++k) {
      const auto a = static_cast<std::int32_t>(rng() % static_cast<unsigned>(time_steps));
      const auto b = static_cast<std::int32_t>(rng() % static_cast<unsigned>(time_steps));
      stretches.push_back({std::min(a, b), std::max(a, b), static_cast<std::int64_t>(rng() % 6),
                           static_cast<double>(rng() % 10)});
    }
    LinePrices line(available, stretches);
    ASSERT_TRUE(line.solve(10'000'000));
    const std::vector<double> prices = line.prices();
    double saved = 0, worth = 0;
    std::vector<std::int64_t> used(available.size(), 0);
    for (std::size_t k = 0; k < stretches.size(); ++k) {
      const Stretch& s = stretches[k];
      const std::int64_t kept = line.kept(static_cast<std::int32_t>(k));
      ASSERT_GE(kept, 0);
      ASSERT_LE(kept, s.bytes);
      double rent = 0;
      for (std::int32_t t = s.first; t <= s.last; ++t) {
        used[at(t)] += kept;
        rent += prices[at(t)];
      }
      if (s.bytes == 0) continue;
      saved += s.seconds * static_cast<double>(kept) / static_cast<double>(s.bytes);
      worth += std::max(0.0, s.seconds - rent * static_cast<double>(s.bytes));
    }
    for (std::size_t t = 0; t < available.size(); ++t) {
      ASSERT_LE(used[t], available[t]);
      worth += prices[t] * static_cast<double>(available[t]);
    }
    ASSERT_NEAR(saved, worth, 1e-6 * (1 + worth));
  }
}

}  // namespace
}  // namespace plimsoll::planner
