// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/bound/bound.h"

#include <algorithm>
#include <limits>

#include "runtime/base/index.h"
#include "runtime/planner/bound/bound_branch.h"
#include "runtime/planner/bound/bound_pricing.h"
#include "runtime/planner/flow/line_flow.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/remedies_find.h"

namespace plimsoll::planner {
namespace {

constexpr int kMostRecomputations = 16;

// Prices along the excess, fractions along the gains, in ever smaller steps (Polyak; Camerini,
// Fratta and Maffioli's deflection).
//
// The bound is the value of a concave function of the prices (bound_pricing.cc), so that climbing
// it along a subgradient ends at its maximum. The subgradient at prices p is, per tight time step,
// what the cheapest choices at p put there beyond what is available: where too much lies the price
// must rise. The step is Polyak's, (aim - value) / |direction|^2, with the best value so far and
// `reach` more as the aim, since the maximum itself is not known; `direction` remembers 0.4 of the
// one before, which cuts off the zigzag of plain subgradients. After six rounds without a better
// value, aim and rate are halved and the climb begins at the best prices again.
void polish(BoundPricing& pricing, BoundProof& best, int rounds, std::int64_t steps) {
  std::vector<double> prices = best.prices, direction(prices.size(), 0);
  pricing.set_fractions(best.fractions);
  double reach = 0.05, rate = 0.3;
  const std::int64_t stop = pricing.steps_spent() + steps;
  int idle = 0;
  for (int round = 0; round < rounds && pricing.steps_spent() < stop; ++round) {
    const double value = pricing.evaluate(prices);
    if (value > best.value) {
      idle = 0;
      best = {value, prices, pricing.fractions()};
    } else if (++idle == 6) {
      idle = 0;
      reach /= 2;
      rate /= 2;
      if (reach < 1e-4) break;
      prices = best.prices;
      pricing.set_fractions(best.fractions);
      std::fill(direction.begin(), direction.end(), 0);
      continue;
    }
    const std::vector<double> excess = pricing.excess();
    double square = 0;
    for (std::size_t t = 0; t < prices.size(); ++t) {
      // What would only push a price below zero is no direction.
      const double now = prices[t] == 0 && excess[t] < 0 ? 0 : excess[t];
      direction[t] = 0.4 * direction[t] + now;
      square += direction[t] * direction[t];
    }
    if (square == 0) break;
    const double step = (best.value * (1 + reach) - value) / square;
    for (std::size_t t = 0; t < prices.size(); ++t) {
      prices[t] = std::max(0.0, prices[t] + step * direction[t]);
    }
    pricing.share_again(rate);
  }
}

}  // namespace

std::int64_t least_arena_bytes(const BoundModel& model) {
  return model.need.empty() ? 0 : *std::max_element(model.need.begin(), model.need.end());
}

LowerBound lower_bound(const BoundModel& model, std::int64_t arena_limit,
                       const BoundEffort& effort) {
  LowerBound bound;
  bound.base_seconds = bound.seconds = model.base_seconds;
  bound.prices.assign(at(model.time_steps), 0);
  if (least_arena_bytes(model) > arena_limit) {
    bound.seconds = kInfinite;
    return bound;
  }
  const TightTimeSteps tight = find_tight(model, arena_limit, effort.tight_time_steps);
  if (tight.time_steps.empty()) return bound;

  const std::int64_t steps =
      effort.steps > 0 ? effort.steps
                       : std::min<std::int64_t>(60'000'000, 20'000'000 + 3'000 * model.time_steps);
  BoundPricing pricing(model, tight);
  std::vector<Stretch> stretches;
  std::vector<std::size_t> interval_of;
  for (std::size_t g = 0; g < model.intervals.size(); ++g) {
    const Interval& interval = model.intervals[g];
    const Stretch s{tight.rank[at(interval.first)], tight.rank[at(interval.last + 1)] - 1,
                    interval.bytes, pricing.most_drop(g)};
    if (s.first > s.last) continue;
    stretches.push_back(s);
    interval_of.push_back(g);
  }
  LinePrices line(tight.available, stretches);
  // Rounds of two steps that feed each other. The linear program over stretches takes for each
  // interval what evicting its value cost at the last prices, and gives the prices that divide the
  // memory best if intervals could be kept in part. The pricing takes those prices and finds what
  // evicting in each interval really costs: a whole interval, recomputed in the best stage, with
  // what that needs. The linear program knows no stages and no needs; the pricing knows no other
  // intervals. Together they converge in a few rounds, from which polish() climbs on.
  constexpr int kRoundsBeforeSharing = 2, kMostIdleRounds = 10;
  BoundProof best;
  int idle = 0;
  for (int round = 0; round < effort.rounds && idle < kMostIdleRounds; ++round) {
    const std::int64_t left = steps - line.steps_spent() - pricing.steps_spent();
    if (round > 0 && left <= 0) break;
    line.solve(left);
    const std::vector<double> prices = line.prices();
    const double value = pricing.evaluate(prices);
    idle = value > best.value * (1 + 1e-5) ? 0 : idle + 1;
    if (value > best.value) best = {value, prices, pricing.fractions()};
    if (round >= kRoundsBeforeSharing) {
      pricing.share_again(1.0);
      pricing.evaluate(prices);
    }
    for (std::size_t i = 0; i < interval_of.size(); ++i) {
      const double drop = pricing.drop(interval_of[i]);
      if (drop < kInfinite) line.set_seconds(static_cast<std::int32_t>(i), drop);
    }
  }
  if (best.value > 0) {
    polish(pricing, best, effort.polish_rounds, steps - line.steps_spent() - pricing.steps_spent());
  }
  double value = best.value;
  const std::int64_t left = steps - line.steps_spent() - pricing.steps_spent();
  if (best.value > 0 && left > 0) {
    value = branch_on_intervals(pricing, line, interval_of, model, best, effort.nodes, left);
  }
  for (std::size_t i = 0; i < best.prices.size(); ++i) {
    bound.prices[at(tight.time_steps[i])] = best.prices[i];
  }
  // Less what rounding may have added.
  bound.seconds = model.base_seconds + std::max(0.0, value - 1e-9 * model.base_seconds);
  return bound;
}

BoundModel make_plan_bound_model(const Problem& problem, const PlanOptions& options) {
  Problem least = problem;
  for (const OpId op : least.ops.ids()) {
    const std::int32_t row = least.ops[op].variants;
    if (row < 0) continue;
    choose_variant(least, op, 0);
    least.ops[op].workspace = least.graph->variants[at(row)].back().arena_bytes;
  }
  std::vector<Substitute> substitutes;
  for (const Form& form : find_forms(problem, options)) {
    // Transfers may be hidden behind other work.
    const bool swap = form.kind != RemedyKind::compress;
    const double once = swap || form.fused_encode ? 0 : form.encode_seconds;
    substitutes.push_back({form.value,
                           swap ? 0 : form.bytes,
                           once,
                           swap ? 0 : form.decode_seconds,
                           form.first_return,
                           {}});
    if (form.fused_encode) {
      substitutes.back().fused_touches.push_back(problem.values[form.value].producer);
    }
    if (form.fused_readers.empty()) continue;
    for (const OpId use : problem.uses[form.value]) {
      if (reads_fused(problem.ops[use], form.fused_readers)) {
        substitutes.back().fused_touches.push_back(use);
      }
    }
  }
  return make_bound_model(least, kMostRecomputations, substitutes);
}

double lower_bound_seconds(const Problem& problem, std::int64_t arena_limit) {
  return lower_bound(make_bound_model(problem, kMostRecomputations), arena_limit).seconds;
}

}  // namespace plimsoll::planner
