// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/planner/evaluate.h"
#include "runtime/planner/improve.h"
#include "runtime/planner/order_lists.h"
#include "runtime/planner/order_search.h"
#include "runtime/planner/walk.h"

namespace plimsoll::planner {
namespace {

// Positions that the search may look at, per op and besides.
constexpr std::int64_t kEffortPerOp = 24, kEffort = 40'000;
constexpr int kSmall = 5'000;
// Up to so many ops, orders are also compared by what they cost when memory is short: at three
// limits, at one.
constexpr std::size_t kFewOps = 500, kManyOps = 4'000;

struct Candidate {
  std::int64_t peak;
  std::vector<OpId> order;
};

}  // namespace

std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed) {
  std::vector<OpId> textual(graph.ops.size());
  std::iota(textual.begin(), textual.end(), 0);
  if (fixed || textual.size() < 2) return {textual};
  const OrderGraph og(graph);
  std::vector<Candidate> candidates;
  const auto offer = [&](std::vector<OpId> order) {
    const std::int64_t peak = peak_of(og, order);
    candidates.push_back({peak, std::move(order)});
  };
  offer(textual);
  offer(eager_order(og, textual));
  offer(lazy_order(og, candidates.back().order));
  offer(memory_greedy_order(og));
  offer(reverse_greedy_order(og));
  offer(depth_first_order(og, false));
  offer(depth_first_order(og, true));
  offer(level_order(og));
  const auto lowest_first = [&] {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.peak < b.peak; });
  };
  lowest_first();
  // What is close to the best may become better than it.
  const std::int64_t effort = kEffort + kEffortPerOp * og.size();
  const std::size_t tried = og.size() <= kSmall ? 4 : 2;
  const std::int64_t close = candidates.front().peak + candidates.front().peak / 4;
  for (std::size_t i = 0; i < tried && i < candidates.size(); ++i) {
    if (candidates[i].peak > close) break;
    candidates[i].order = lower_peak(og, std::move(candidates[i].order), effort);
    candidates[i].peak = peak_of(og, candidates[i].order);
  }
  lowest_first();
  std::vector<std::vector<OpId>> orders;
  for (Candidate& candidate : candidates) {
    if (std::find(orders.begin(), orders.end(), candidate.order) == orders.end()) {
      orders.push_back(std::move(candidate.order));
    }
  }
  return orders;
}

namespace {

struct Arranged {
  Problem problem;
  std::int64_t peak = 0;  // of the arena when nothing is given up
  double seconds = 0;
  std::vector<std::int64_t> profile;
};

Arranged arranged(const Graph& graph, std::span<const OpId> order, bool movable) {
  Arranged result{arrange(graph, order, movable), 0, 0, {}};
  Schedule once(static_cast<std::size_t>(result.problem.op_count()));
  std::iota(once.begin(), once.end(), 0);
  const Evaluation e = evaluate(result.problem, once, &result.profile);
  result.peak = e.arena_peak;
  result.seconds = e.seconds;
  return result;
}

// The time of the order under `arena_limit` by one or two quick walks; what they can't do counts as
// several times the whole.
double trial_seconds(const Arranged& order, std::int64_t arena_limit) {
  constexpr double kFailed = 4;
  if (order.peak <= arena_limit) return order.seconds;
  Walk walk(order.problem, 0);
  WalkStyle in_order, far_first;
  far_first.gap_power = 0;
  far_first.keep_dead = true;
  far_first.depth_first = true;
  const auto most = 4 * order.problem.ops.size() + 64;
  double best = kFailed * order.seconds;
  for (const WalkStyle* style : {&in_order, &far_first}) {
    std::optional<Schedule> schedule = walk.run(arena_limit, *style, most, best);
    if (!schedule) continue;
    drop_unread(order.problem, *schedule);
    const Evaluation e = evaluate(order.problem, *schedule);
    if (e.arena_peak <= arena_limit) best = std::min(best, e.seconds);
  }
  return best;
}

}  // namespace

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
  // What is faster by less than the trials tell apart is not worth a higher peak.
  constexpr double kClearly = 0.99;
  std::size_t best = 0;
  double best_seconds = 0;
  for (std::size_t i = 0; i < tried.size(); ++i) {
    double seconds = 0;
    for (const double share : shares) {
      seconds +=
          trial_seconds(tried[i], static_cast<std::int64_t>(share * static_cast<double>(lowest)));
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

}  // namespace plimsoll::planner
