// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound.h"

#include <algorithm>
#include <limits>

#include "runtime/planner/bound_pricing.h"
#include "runtime/planner/prices.h"
#include "runtime/planner/remedies.h"

namespace plimsoll::planner {
namespace {

constexpr int kMostRemakes = 16;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

std::int64_t least_arena_bytes(const BoundModel& model) {
  return model.need.empty() ? 0 : *std::max_element(model.need.begin(), model.need.end());
}

LowerBound lower_bound(const BoundModel& model, std::int64_t arena_limit,
                       const BoundEffort& effort) {
  LowerBound bound;
  bound.base_seconds = bound.seconds = model.base_seconds;
  bound.prices.assign(at(model.moments), 0);
  if (least_arena_bytes(model) > arena_limit) {
    bound.seconds = kInfinite;
    return bound;
  }
  const TightMoments tight = find_tight(model, arena_limit, effort.tight_moments);
  if (tight.moments.empty()) return bound;

  BoundPricing pricing(model, tight);
  std::vector<Stretch> stretches;
  std::vector<std::size_t> gap_of;
  for (std::size_t g = 0; g < model.gaps.size(); ++g) {
    const Gap& gap = model.gaps[g];
    const Stretch s{tight.rank[at(gap.first)], tight.rank[at(gap.last + 1)] - 1, gap.bytes,
                    pricing.most_drop(g)};
    if (s.first > s.last) continue;
    stretches.push_back(s);
    gap_of.push_back(g);
  }
  LinePrices line(tight.room, stretches);
  constexpr int kRoundsBeforeSharing = 2, kMostIdleRounds = 8;
  double best = 0;
  std::vector<double> best_prices;
  int idle = 0;
  for (int round = 0; round < effort.rounds && idle < kMostIdleRounds; ++round) {
    const std::int64_t left = effort.steps - line.steps_spent() - pricing.steps_spent();
    if (round > 0 && left <= 0) break;
    line.solve(left);
    const std::vector<double> prices = line.prices();
    const double value = pricing.evaluate(prices);
    idle = value > best * (1 + 1e-5) ? 0 : idle + 1;
    if (value > best) {
      best = value;
      best_prices = prices;
    }
    if (round >= kRoundsBeforeSharing) {
      pricing.share_again(1.0);
      pricing.evaluate(prices);
    }
    for (std::size_t i = 0; i < gap_of.size(); ++i) {
      const double drop = pricing.drop(gap_of[i]);
      if (drop < kInfinite) line.set_seconds(static_cast<std::int32_t>(i), drop);
    }
  }
  for (std::size_t i = 0; i < best_prices.size(); ++i) {
    bound.prices[at(tight.moments[i])] = best_prices[i];
  }
  // Less what rounding may have added.
  bound.seconds = model.base_seconds + std::max(0.0, best - 1e-9 * model.base_seconds);
  return bound;
}

BoundModel make_plan_bound_model(const Problem& problem, const PlanOptions& options) {
  Problem least = problem;
  for (OpId op = 0; op < least.op_count(); ++op) {
    const std::int32_t row = least.ops[at(op)].variants;
    if (row < 0) continue;
    choose_variant(least, op, 0);
    least.ops[at(op)].workspace = least.graph->variants[at(row)].back().arena_bytes;
  }
  std::vector<Substitute> substitutes;
  for (const Form& form : find_forms(problem, options)) {
    // Transfers may be hidden behind other work.
    const bool swap = form.kind != RemedyKind::compress;
    substitutes.push_back({form.value, swap ? 0 : form.bytes, swap ? 0 : form.out_seconds,
                           swap ? 0 : form.in_seconds, form.first_return});
  }
  return make_bound_model(least, kMostRemakes, substitutes);
}

double lower_bound_seconds(const Problem& problem, std::int64_t arena_limit) {
  return lower_bound(make_bound_model(problem, kMostRemakes), arena_limit).seconds;
}

}  // namespace plimsoll::planner
