// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/weight_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "runtime/base/index.h"

// A search in the space of simulations instead of schedules.
//
// A simulation turns scores into a schedule (eviction_simulation.cc). Multiplying the score of
// single values by factors gives other simulations; the factors are what is searched: perturb some,
// simulate, improve the result (improve.cc), keep the factors if it is not slower. Where a value
// was evicted too early its factor has to grow, which a random change finds in a few tries as only
// few values matter.
//
// Three kinds of changes: of single values; of all values of the same bytes and the same time (the
// layers of a network are alike, what is right for one is right for all); of all values made in a
// stretch of the order (a network's beginning and end differ). A factor is changed by e^(2 (u + v -
// 1)), u and v uniform: mostly little, at most by e^2.
//
// Acceptance is that of threshold search: a little slower is taken now and then, by -kSlack *
// left^2 * log(1 - u) of the time, where `left` is the part of the work that is still to come.

namespace plimsoll::planner {
namespace {

// The largest change of a factor, as a power of e.
constexpr double kAmplitude = 2;
// How much slower, as a share, the next simulation to go on from may be at first.
constexpr double kSlack = 1e-4;
constexpr int kFirstStyles = 16;
// A value of fewer bytes than this share of the peak is no candidate, and at most so many change
// together.
constexpr std::int64_t kLeastShare = 10'000;
constexpr int kFew = 16;
// As long as more is computed again than this, many factors are wrong and change together.
constexpr double kMuchAgainForSimulations = 1.25;

}  // namespace

WeightSearch::WeightSearch(const Problem& problem, std::int64_t min_bytes, std::int64_t arena_limit,
                           std::uint64_t seed, std::span<const double> prices)
    : problem_(problem),
      arena_limit_(arena_limit),
      random_(seed),
      simulation_(problem, min_bytes),
      keeping_(problem),
      few_share_(0.45 * static_cast<double>(seed % 3)) {
  Schedule once = each_once(problem);
  std::vector<std::int64_t> profile;
  evaluate(problem, once, &profile);
  if (prices.empty()) {
    simulation_.set_profile(profile, arena_limit);
  } else {
    simulation_.set_prices(prices);
  }
  list_candidates(profile);
  once_seconds_ = total_seconds(problem, once);
  // Times that were measured differ a little for equal work.
  //
  // Hence kinds go by the logarithm of the time, in quarters of a doubling.
  std::vector<std::tuple<std::int64_t, int, ValueId>> keys;
  for (const ValueId v : problem.values.ids()) {
    const Value& value = problem.values[v];
    const double seconds = value.producer < 0 ? 0 : problem.ops[value.producer].seconds;
    keys.emplace_back(value.bytes, static_cast<int>(std::lround(4 * std::log2(seconds + 1e-9))), v);
  }
  std::sort(keys.begin(), keys.end());
  kind_.assign(problem.values.size(), 0);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const bool same = i > 0 && std::get<0>(keys[i]) == std::get<0>(keys[i - 1]) &&
                      std::get<1>(keys[i]) == std::get<1>(keys[i - 1]);
    if (i > 0 && !same) ++kinds_;
    kind_[std::get<2>(keys[i])] = kinds_;
  }
  ++kinds_;
}

void WeightSearch::list_candidates(std::span<const std::int64_t> profile) {
  // Per position, how many before it have too little room.
  std::vector<std::int32_t> tight(profile.size() + 1, 0);
  std::int64_t peak = 0;
  for (std::size_t t = 0; t < profile.size(); ++t) {
    tight[t + 1] = tight[t] + (profile[t] > arena_limit_ ? 1 : 0);
    peak = std::max(peak, profile[t]);
  }
  for (const ValueId v : problem_.values.ids()) {
    const Value& value = problem_.values[v];
    const auto uses = problem_.uses[v];
    if (!problem_.in_arena(v) || value.producer < 0 || uses.empty()) continue;
    if (value.bytes < peak / kLeastShare) continue;
    if (tight[at(uses.back())] > tight[at(value.producer) + 1]) candidates_.push_back(v);
  }
}

SimulationStyle WeightSearch::first_style(int i) const {
  SimulationStyle style;
  style.interval_power = 0.25 * (i % 5);
  style.keep_dead = i >= 5 && i < 10;
  style.weighted_interval = i == 10;
  style.depth_first = i == 11;
  style.one_by_one = i >= 12;
  if (i == 13) style.cost_power = 0;
  style.keep_dead = style.keep_dead || i == 14;
  if (i >= 10) style.interval_power = i == 15 ? 0.5 : 1;
  return style;
}

void WeightSearch::change_weights(IdVector<ValueId, double>& weight) {
  if (weight.empty()) weight.assign(problem_.values.size(), 1);
  const auto factor = [&] { return std::exp(kAmplitude * (random_.unit() + random_.unit() - 1)); };
  const double what = random_.unit();
  const bool few =
      current_seconds_ < kMuchAgainForSimulations * once_seconds_ && !candidates_.empty();
  if (what < 0.6 && few && random_.unit() < few_share_) {
    const auto count = static_cast<std::int32_t>(candidates_.size());
    for (int left = random_.below(1 + random_.below(kFew)); left >= 0; --left) {
      weight[candidates_[at(random_.below(count))]] *= factor();
    }
  } else if (what < 0.6) {
    const double share =
        0.15 * random_.unit() * random_.unit() + 1.0 / static_cast<double>(weight.size());
    for (double& w : weight) {
      if (random_.unit() < share) w *= factor();
    }
  } else if (what < 0.8) {
    const std::int32_t kind =
        kind_[ValueId(random_.below(static_cast<std::int32_t>(weight.size())))];
    const double f = factor();
    for (const ValueId v : weight.ids()) {
      if (kind_[v] == kind) weight[v] *= f;
    }
  } else {
    const int ops = problem_.op_count();
    const OpId from(random_.below(ops)), to = from + 1 + random_.below(std::max(8, ops / 8));
    const bool together = random_.unit() < 0.5;
    const double f = factor();
    for (const ValueId v : weight.ids()) {
      const OpId producer = problem_.values[v].producer;
      if (producer >= from && producer < to) weight[v] *= together ? f : factor();
    }
  }
}

SimulationStyle WeightSearch::changed(const SimulationStyle& from) {
  SimulationStyle style = from;
  if (random_.unit() < 0.05) style.interval_power = random_.unit() * 1.5;
  if (random_.unit() < 0.05) style.cost_power = 0.3 + random_.unit();
  if (random_.unit() < 0.03) style.weighted_interval = !style.weighted_interval;
  if (random_.unit() < 0.03) style.keep_dead = !style.keep_dead;
  if (random_.unit() < 0.02) style.depth_first = !style.depth_first;
  if (random_.unit() < 0.02) style.one_by_one = !style.one_by_one;
  change_weights(style.weight);
  return style;
}

void WeightSearch::run(std::optional<Schedule>& best, SearchClock& clock) {
  double best_seconds = best ? total_seconds(problem_, *best) : 0;
  const auto most_executions = at(problem_.op_count()) * 12 + 64;
  for (; clock.done() < 1; ++simulations_) {
    SimulationStyle style =
        simulations_ < kFirstStyles ? first_style(simulations_) : changed(current_);
    const double most = best ? std::min(current_seconds_, 2 * best_seconds) * 1.15
                             : std::numeric_limits<double>::infinity();
    auto schedule = simulation_.run(arena_limit_, style, most_executions, most);
    clock.spend(200 * problem_.op_count() +
                (schedule ? 400 * static_cast<std::int64_t>(schedule->size()) : 0));
    if (!schedule) {
      // As long as nothing fits, the simulation that gets farthest is gone on from.
      if (!best && simulation_.reached() >= reached_) {
        reached_ = simulation_.reached();
        current_ = std::move(style);
      }
      continue;
    }
    drop_unread(problem_, *schedule);
    if (evaluate(problem_, *schedule).arena_peak > arena_limit_) continue;
    keeping_.run(*schedule, arena_limit_, 0);
    const double seconds = total_seconds(problem_, *schedule);
    // A little slower will do now and then, less and less.
    const double left = std::max(0.0, 1 - clock.done());
    const double slack = -kSlack * seconds * left * left * std::log(1 - random_.unit());
    if (seconds <= current_seconds_ + slack) {
      current_seconds_ = seconds;
      current_ = std::move(style);
    }
    if (!best || seconds < best_seconds) {
      best_seconds = seconds;
      best = std::move(schedule);
    }
  }
}

}  // namespace plimsoll::planner
