// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/planner/order/list_schedulers.h"
#include "runtime/planner/order/peak_search.h"

namespace plimsoll::planner {
namespace {

// Positions that the search may look at, per op and besides.
constexpr std::int64_t kEffortPerOp = 24, kEffort = 40'000;
constexpr int kSmall = 5'000;
struct Candidate {
  std::int64_t peak;
  std::vector<OpId> order;
};

std::vector<OpId> textual_order(std::size_t ops) {
  std::vector<OpId> order(ops);
  std::iota(order.begin(), order.end(), OpId(0));
  return order;
}

}  // namespace

std::int64_t search_effort(const OrderGraph& og) { return kEffort + kEffortPerOp * og.size(); }

std::vector<std::vector<OpId>> orders_as_written(const OrderGraph& og) {
  std::vector<std::vector<OpId>> orders{textual_order(at(og.size()))};
  orders.push_back(eager_order(og, orders[0]));
  orders.push_back(lazy_order(og, orders[1]));
  return orders;
}

std::vector<std::vector<OpId>> listed_orders(const OrderGraph& og) {
  std::vector<std::vector<OpId>> orders = orders_as_written(og);
  orders.push_back(memory_greedy_order(og));
  orders.push_back(reverse_greedy_order(og));
  orders.push_back(depth_first_order(og, false));
  orders.push_back(depth_first_order(og, true));
  orders.push_back(level_order(og));
  return orders;
}

std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed) {
  if (fixed || graph.ops.size() < 2) return {textual_order(graph.ops.size())};
  const OrderGraph og(graph);
  std::vector<Candidate> candidates;
  for (std::vector<OpId>& order : listed_orders(og)) {
    const std::int64_t peak = peak_of(og, order);
    candidates.push_back({peak, std::move(order)});
  }
  const auto lowest_first = [&] {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.peak < b.peak; });
  };
  lowest_first();
  // What is close to the best may become better than it.
  const std::int64_t effort = search_effort(og);
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

}  // namespace plimsoll::planner
