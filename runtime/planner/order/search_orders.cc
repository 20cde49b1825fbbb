// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/search_orders.h"

#include <algorithm>
#include <utility>

#include "runtime/planner/order/order.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

std::vector<std::vector<OpId>> search_orders(const Problem& problem) {
  std::vector<OpId> own = each_once(problem);
  if (own.empty()) return {own};
  Graph graph;
  graph.ops = problem.ops;
  graph.inputs = problem.reads;
  graph.outputs = problem.outputs;
  graph.values = problem.values;
  graph.reuse = problem.reuse;
  for (const OpId op : own) {
    // What lives out is read by the last op.
    if (op == own.back()) {
      for (const OpId before : own) {
        if (before != op) graph.after.push(before);
      }
    }
    graph.after.close();
    graph.held.close();
  }
  std::vector<std::vector<OpId>> orders = candidate_orders(graph, false);
  std::erase(orders, own);
  orders.insert(orders.begin(), std::move(own));
  return orders;
}

std::vector<OpId> order_of_first_runs(const Problem& problem, std::span<const OpId> schedule) {
  IdVector<OpId, char> seen(problem.ops.size(), 0);
  std::vector<OpId> order;
  order.reserve(seen.size());
  for (const OpId op : schedule) {
    if (std::exchange(seen[op], 1) == 0) order.push_back(op);
  }
  return order;
}

}  // namespace plimsoll::planner
