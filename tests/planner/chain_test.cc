// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "runtime/planner/bound/bound.h"
#include "runtime/planner/problem/schedule.h"
#include "tests/planner/bound_problems.h"

namespace plimsoll::planner {
namespace {

// n ops forward, n backward: op i backward reads the gradient and what op i forward read.
Problem unit_chain(int n) {
  ProblemMaker make;
  std::vector<ValueId> x;
  for (int i = 0; i < n; ++i) {
    const ValueId v = make.value(1);
    make.op(1, i == 0 ? std::vector<ValueId>{} : std::vector<ValueId>{x.back()}, {v});
    x.push_back(v);
  }
  ValueId gradient;
  for (int i = n - 1; i >= 0; --i) {
    std::vector<ValueId> reads;
    if (gradient >= 0) reads.push_back(gradient);
    if (i > 0) reads.push_back(x[at(i) - 1]);
    const ValueId g = make.value(1);
    make.op(1, reads, {g});
    gradient = g;
  }
  make.at(gradient).live_out = true;
  return make.finish();
}

// Griewank and Walther (2000): the least number of ops that run again, of n - 1 steps with two
// units of the budget taken by the gradients.
std::int64_t least_extra(std::int64_t n, std::int64_t budget) {
  const std::int64_t steps = n - 1, kept = budget - 2;
  const auto binomial = [](std::int64_t a, std::int64_t b) {
    double r = 1;
    for (std::int64_t i = 1; i <= b; ++i) r = r * static_cast<double>(a - b + i) / i;
    return std::llround(std::min(r, 1e15));
  };
  std::int64_t repeats = 1;
  while (binomial(kept + repeats, kept) < steps) ++repeats;
  return repeats * steps - binomial(kept + repeats, kept + 1) - (steps - 1);
}

TEST(Chain, UnitChainsTakeTheLeastTimeAtEveryLimit) {
  for (const int n : {5, 33, 100}) {
    const Problem problem = unit_chain(n);
    for (int budget = 3; budget <= n + 1; ++budget) {
      const auto schedule = chain_schedule(problem, budget);
      ASSERT_TRUE(schedule.has_value()) << n << " at " << budget;
      EXPECT_EQ(static_cast<std::int64_t>(schedule->size()) - 2 * n, least_extra(n, budget))
          << n << " at " << budget;
      EXPECT_LE(evaluate(problem, *schedule).arena_peak, budget);
    }
    EXPECT_FALSE(chain_schedule(problem, 2).has_value());
  }
}

TEST(Chain, LongUnitChainsTakeTheLeastTime) {
  const Problem problem = unit_chain(800);
  for (const int budget : {12, 31, 80, 400, 777}) {
    const auto schedule = chain_schedule(problem, budget);
    ASSERT_TRUE(schedule.has_value());
    EXPECT_EQ(static_cast<std::int64_t>(schedule->size()) - 1600, least_extra(800, budget));
  }
}

TEST(Chain, UnequalChainsTakeTheLeastTimeOrNearlySo) {
  std::mt19937 rng(5);
  int best = 0, all = 0;
  for (int i = 0; i < 30; ++i) {
    std::vector<double> seconds;
    std::vector<std::int64_t> bytes;
    for (int k = 0; k < 5; ++k) {
      seconds.push_back(1 + rng() % 5);
      bytes.push_back(1 + static_cast<std::int64_t>(rng() % 3));
    }
    const Problem problem = training_chain(seconds, bytes);
    for (std::int64_t limit = 30; limit > 0; --limit) {
      const double optimum = exhaustive_seconds(problem, limit);
      if (std::isinf(optimum)) break;
      const auto schedule = chain_schedule(problem, limit);
      ++all;
      if (!schedule) continue;
      ASSERT_TRUE(is_valid(problem, *schedule));
      ASSERT_LE(evaluate(problem, *schedule).arena_peak, limit);
      const double ours = total_seconds(problem, *schedule);
      ASSERT_GE(ours, optimum);
      EXPECT_LE(lower_bound_seconds(problem, limit), ours);
      if (ours == optimum) ++best;
    }
  }
  EXPECT_GE(best, all * 95 / 100) << best << " of " << all;
}

// Layers of two ops, of which what runs backward reads the second's result alone.
Problem layered_chain(std::mt19937& rng, int layers, int kinds) {
  ProblemMaker make;
  std::vector<ValueId> kept;
  std::vector<std::array<int, 4>> like;
  for (int k = 0; k < kinds; ++k) {
    const auto draw = [&](int most) { return 1 + static_cast<int>(rng() % most); };
    like.push_back({draw(3), draw(4), draw(2), draw(5)});
  }
  for (int i = 0; i < layers; ++i) {
    const auto [bytes, seconds, more, seconds2] = like[at(i % kinds)];
    const ValueId inner = make.value(bytes + more - 1);
    make.op(seconds, kept.empty() ? std::vector<ValueId>{} : std::vector<ValueId>{kept.back()},
            {inner});
    const ValueId result = make.value(bytes);
    make.op(seconds2, {inner}, {result});
    kept.push_back(result);
  }
  ValueId gradient;
  for (int i = layers - 1; i >= 0; --i) {
    std::vector<ValueId> reads{kept[at(i)]};
    if (gradient >= 0) reads.push_back(gradient);
    const ValueId next = make.value(1);
    make.op(1, reads, {next});
    gradient = next;
  }
  make.at(gradient).live_out = true;
  return make.finish();
}

TEST(Chain, OpsWhoseResultsAreNeverWorthKeepingShareAStage) {
  std::mt19937 rng(7);
  int best = 0, all = 0;
  for (int i = 0; i < 20; ++i) {
    const Problem problem = layered_chain(rng, 3, 3);
    ASSERT_TRUE(find_chain(problem).has_value());
    EXPECT_EQ(find_chain(problem)->stages.size(), 3u);
    for (std::int64_t limit = 20; limit > 0; --limit) {
      const double optimum = exhaustive_seconds(problem, limit);
      if (std::isinf(optimum)) {
        EXPECT_FALSE(chain_schedule(problem, limit).has_value());
        break;
      }
      ++all;
      const auto schedule = chain_schedule(problem, limit);
      if (!schedule) continue;
      ASSERT_TRUE(is_valid(problem, *schedule));
      ASSERT_LE(evaluate(problem, *schedule).arena_peak, limit);
      if (total_seconds(problem, *schedule) == optimum) ++best;
    }
  }
  EXPECT_GE(best, all * 95 / 100) << best << " of " << all;
}

TEST(Chain, LongChainsOfEqualLayersAreSolvedAndThoseOfUnequalOnesRefused) {
  std::mt19937 rng(8);
  EXPECT_TRUE(chain_schedule(layered_chain(rng, 400, 1), 60, 1'000'000).has_value());
  EXPECT_FALSE(chain_schedule(layered_chain(rng, 1200, 7), 200, 1'000'000).has_value());
}

TEST(Chain, LargeUnequalChainsStayWithinTheLimitAndTheirBound) {
  std::mt19937 rng(9);
  std::vector<double> seconds;
  std::vector<std::int64_t> bytes;
  for (int k = 0; k < 40; ++k) {
    seconds.push_back(1e-3 * static_cast<double>(1 + rng() % 50));
    bytes.push_back(64 * static_cast<std::int64_t>(1 + rng() % 1000));
  }
  const Problem problem = training_chain(seconds, bytes);
  Schedule once;
  for (const OpId op : problem.ops.ids()) once.push_back(op);
  const std::int64_t peak = evaluate(problem, once).arena_peak;
  double before = 0;
  for (int i = 10; i >= 3; i -= 2) {
    const std::int64_t limit = peak * i / 10;
    const auto schedule = chain_schedule(problem, limit);
    ASSERT_TRUE(schedule.has_value()) << i;
    EXPECT_TRUE(is_valid(problem, *schedule));
    EXPECT_LE(evaluate(problem, *schedule).arena_peak, limit);
    const double ours = total_seconds(problem, *schedule);
    EXPECT_GE(ours * (1 + 1e-9), before);
    EXPECT_GE(ours, lower_bound_seconds(problem, limit));
    before = ours;
  }
}

TEST(Chain, SeesThatAProblemIsNoChain) {
  // The last op reads far apart results at once.
  ProblemMaker make;
  std::vector<ValueId> x;
  for (int i = 0; i < 6; ++i) {
    const ValueId v = make.value(1);
    make.op(1, i == 0 ? std::vector<ValueId>{} : std::vector<ValueId>{x.back()}, {v});
    x.push_back(v);
  }
  make.op(1, {x[0], x[2], x[4], x[5]}, {make.value(1)});
  const Problem problem = make.finish();
  EXPECT_FALSE(find_chain(problem).has_value());
  EXPECT_FALSE(chain_schedule(problem, 10).has_value());
}

}  // namespace
}  // namespace plimsoll::planner
