// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "runtime/planner/evaluate.h"
#include "runtime/planner/order_lists.h"
#include "runtime/planner/order_search.h"

namespace plimsoll::planner {
namespace {

// Positions that the search may look at, per op and besides.
constexpr std::int64_t kEffortPerOp = 24, kEffort = 40'000;
constexpr int kSmall = 5'000;

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
  for (Candidate& candidate : candidates) orders.push_back(std::move(candidate.order));
  return orders;
}

Problem arrange_best(const Graph& graph, bool fixed) {
  Problem best;
  std::int64_t best_peak = 0;
  std::vector<std::vector<OpId>> orders = candidate_orders(graph, fixed);
  // Copies and uploads, which only the arranged problem has, change little.
  constexpr std::size_t kMostArranged = 2;
  if (orders.size() > kMostArranged) orders.resize(kMostArranged);
  for (const auto& order : orders) {
    Problem problem = arrange(graph, order, !fixed);
    Schedule schedule(static_cast<std::size_t>(problem.op_count()));
    std::iota(schedule.begin(), schedule.end(), 0);
    const std::int64_t peak = evaluate(problem, schedule).arena_peak + problem.output_bytes;
    if (best.graph != nullptr && peak >= best_peak) continue;
    best = std::move(problem);
    best_peak = peak;
  }
  return best;
}

}  // namespace plimsoll::planner
