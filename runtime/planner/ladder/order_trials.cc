// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/order_trials.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>

#include "runtime/planner/order/list_schedulers.h"
#include "runtime/planner/order/order.h"
#include "runtime/planner/order/order_graph.h"
#include "runtime/planner/order/peak_search.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remat/eviction_simulation.h"
#include "runtime/planner/remat/improve.h"

namespace plimsoll::planner {
namespace {

// Up to so many ops, orders are also compared by what they cost when memory is short: at three
// limits, at one.
constexpr std::size_t kFewOps = 500, kManyOps = 4'000;
// Other orders for low limits: up to so many ops, of those as written alone beyond kManyOps; at
// these shares of the lowest peak.
constexpr std::size_t kMostOps = 20'000;
constexpr std::array kLowShares = {0.5, 0.35, 0.25, 0.18};
constexpr std::size_t kMostOthers = 2;

// What is faster by less than the trials tell apart is not worth a higher peak, or another order.
constexpr double kClearly = 0.99;
// What a trial can't do counts as several times the whole.
constexpr double kFailed = 4;

struct Arranged {
  Problem problem;
  std::int64_t peak = 0;  // of the arena when nothing is evicted
  double seconds = 0;
  std::vector<std::int64_t> profile;
};

Arranged arranged(const Graph& graph, std::span<const OpId> order, bool movable) {
  Arranged result{arrange(graph, order, movable), 0, 0, {}};
  Schedule once = each_once(result.problem);
  const Evaluation e = evaluate(result.problem, once, &result.profile);
  result.peak = e.arena_peak;
  result.seconds = e.seconds;
  return result;
}

}  // namespace

// A trial is one simulation, or two where the first does not get through. It ranks orders, it does
// not plan them: what a search would find is faster, but for all orders alike.
std::optional<double> trial_seconds(const Problem& problem, std::int64_t arena_limit) {
  constexpr double kMost = 4;
  double once = 0;
  for (const Op& op : problem.ops) once += op.seconds;
  EvictionSimulation simulation(problem, 0);
  SimulationStyle in_order, far_first;
  far_first.interval_power = 0;
  far_first.keep_dead = true;
  far_first.depth_first = true;
  const auto most = 4 * problem.ops.size() + 64;
  for (const SimulationStyle* style : {&in_order, &far_first}) {
    std::optional<Schedule> schedule = simulation.run(arena_limit, *style, most, kMost * once);
    if (!schedule) continue;
    drop_unread(problem, *schedule);
    const Evaluation e = evaluate(problem, *schedule);
    if (e.arena_peak <= arena_limit) return e.seconds;
  }
  return std::nullopt;
}

Problem arrange_best(const Graph& graph, bool fixed) {
  const std::vector<std::vector<OpId>> orders = candidate_orders(graph, fixed);
  if (orders.size() == 1) return arrange(graph, orders[0], !fixed);
  const std::size_t ops = graph.ops.size();
  const std::size_t most = ops <= kFewOps ? 5 : ops <= kManyOps ? 3 : 2;
  std::vector<Arranged> tried;
  for (const auto& order : orders) {
    if (tried.size() == most) break;
    Arranged next = arranged(graph, order, !fixed);
    // Copies and uploads, which only the arranged problem has, change little.
    if (!tried.empty() && next.peak > tried[0].peak + tried[0].peak / 4) continue;
    tried.push_back(std::move(next));
  }
  std::int64_t lowest = kUnlimited;
  for (const Arranged& order : tried) lowest = std::min(lowest, order.peak);
  std::vector<double> shares;
  if (ops <= kManyOps) shares = {0.6};
  if (ops <= kFewOps) shares = {0.95, 0.75, 0.5};
  std::size_t best = 0;
  double best_seconds = 0;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    double seconds = 0;
    for (const double share : shares) {
      const auto limit = static_cast<std::int64_t>(share * static_cast<double>(lowest));
      seconds += tried[i].peak <= limit
                     ? tried[i].seconds
                     : trial_seconds(tried[i].problem, limit).value_or(kFailed * tried[i].seconds);
    }
    const bool better = shares.empty()
                            ? tried[i].peak < tried[best].peak
                            : seconds < best_seconds * kClearly ||
                                  (seconds <= best_seconds && tried[i].peak < tried[best].peak);
    if (i > 0 && !better) continue;
    best = i;
    best_seconds = seconds;
  }
  return std::move(tried[best].problem);
}

std::vector<Problem> arrange_others(const Graph& graph, const Problem& best,
                                    std::int64_t arena_peak) {
  const std::size_t ops = graph.ops.size();
  if (ops < 2 || ops > kMostOps) return {};
  const OrderGraph og(graph);
  std::vector<std::vector<OpId>> orders =
      ops <= kManyOps ? listed_orders(og) : orders_as_written(og);
  orders.push_back(lower_peak(og, orders[2], search_effort(og)));
  std::vector<Problem> problems;
  for (const auto& order : orders) problems.push_back(arrange(graph, order, true));
  std::vector<char> works(problems.size(), 1);  // at the limits so far
  std::vector<std::size_t> chosen;
  for (const double share : kLowShares) {
    const auto limit = static_cast<std::int64_t>(share * static_cast<double>(arena_peak));
    constexpr double kNever = std::numeric_limits<double>::infinity();
    double have = trial_seconds(best, limit).value_or(kNever);
    double least = kNever;
    std::size_t fastest = 0;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      if (!works[i]) continue;
      const std::optional<double> seconds = trial_seconds(problems[i], limit);
      works[i] = seconds.has_value();
      if (!seconds) continue;
      if (std::find(chosen.begin(), chosen.end(), i) != chosen.end()) {
        have = std::min(have, *seconds);
      } else if (*seconds < least) {
        least = *seconds;
        fastest = i;
      }
    }
    if (least < kClearly * have) chosen.push_back(fastest);
    if (chosen.size() == kMostOthers) break;
  }
  std::vector<Problem> others;
  for (const std::size_t i : chosen) others.push_back(std::move(problems[i]));
  return others;
}

}  // namespace plimsoll::planner
