// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

#include "runtime/planner/evaluate.h"

namespace plimsoll::planner {
namespace {

// Predecessors and successors of each op, each once.
struct Edges {
  Rows before, behind;
};

Edges find_edges(const Graph& graph) {
  Edges edges;
  const auto n = graph.ops.size();
  std::vector<std::int32_t> degree(n + 1, 0);
  std::vector<OpId> list;
  for (OpId op = 0; op < static_cast<OpId>(n); ++op) {
    list.assign(graph.after[op].begin(), graph.after[op].end());
    for (const ValueId v : graph.inputs[op]) {
      if (v < 0) continue;
      const OpId producer = graph.values[static_cast<std::size_t>(v)].producer;
      if (producer >= 0) list.push_back(producer);
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    for (const OpId b : list) {
      edges.before.push(b);
      ++degree[static_cast<std::size_t>(b) + 1];
    }
    edges.before.close();
  }
  std::partial_sum(degree.begin(), degree.end(), degree.begin());
  edges.behind.begin = degree;
  edges.behind.items.resize(edges.before.items.size());
  for (OpId op = 0; op < static_cast<OpId>(n); ++op) {
    for (const OpId b : edges.before[op]) {
      edges.behind.items[static_cast<std::size_t>(degree[static_cast<std::size_t>(b)]++)] = op;
    }
  }
  return edges;
}

// Bytes of arena that a value would cost: results and what has a fixed place cost nothing.
std::vector<std::int64_t> arena_costs(const Graph& graph) {
  std::vector<std::int64_t> cost(graph.values.size());
  for (std::size_t v = 0; v < cost.size(); ++v) {
    cost[v] = graph.values[v].producer >= 0 ? graph.values[v].bytes : 0;
  }
  for (const ValueId v : graph.results) {
    if (v >= 0) cost[static_cast<std::size_t>(v)] = 0;
  }
  return cost;
}

// Always the ready op that frees most, net of what it makes; ties by textual order.
std::vector<OpId> memory_greedy(const Graph& graph, const Edges& edges) {
  const auto n = static_cast<OpId>(graph.ops.size());
  const std::vector<std::int64_t> cost = arena_costs(graph);
  std::vector<std::int32_t> readers(graph.values.size(), 0), waiting(graph.ops.size());
  std::vector<std::vector<OpId>> ready_readers(graph.values.size());
  const auto each_read = [&](OpId op, const auto& f) {
    const auto inputs = graph.inputs[op];
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k] < 0 || cost[static_cast<std::size_t>(inputs[k])] == 0) continue;
      if (std::find(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(k), inputs[k]) ==
          inputs.begin() + static_cast<std::ptrdiff_t>(k)) {
        f(inputs[k]);
      }
    }
  };
  for (OpId op = 0; op < n; ++op) {
    each_read(op, [&](ValueId v) { ++readers[static_cast<std::size_t>(v)]; });
    waiting[static_cast<std::size_t>(op)] = static_cast<std::int32_t>(edges.before[op].size());
  }
  const auto gain = [&](OpId op) {
    std::int64_t bytes = 0;
    for (const ValueId v : graph.outputs[op]) {
      if (v >= 0) bytes -= cost[static_cast<std::size_t>(v)];
    }
    each_read(op, [&](ValueId v) {
      if (readers[static_cast<std::size_t>(v)] == 1) bytes += cost[static_cast<std::size_t>(v)];
    });
    return bytes;
  };
  std::vector<std::int64_t> current(graph.ops.size(), 0);
  std::vector<char> done(graph.ops.size(), 0);
  std::priority_queue<std::pair<std::int64_t, OpId>> queue;  // gain, -op
  const auto push = [&](OpId op) {
    current[static_cast<std::size_t>(op)] = gain(op);
    queue.emplace(current[static_cast<std::size_t>(op)], -op);
  };
  const auto make_ready = [&](OpId op) {
    each_read(op, [&](ValueId v) { ready_readers[static_cast<std::size_t>(v)].push_back(op); });
    push(op);
  };
  for (OpId op = 0; op < n; ++op) {
    if (waiting[static_cast<std::size_t>(op)] == 0) make_ready(op);
  }
  std::vector<OpId> order;
  order.reserve(graph.ops.size());
  while (!queue.empty()) {
    const auto [score, negated] = queue.top();
    queue.pop();
    const OpId op = -negated;
    if (done[static_cast<std::size_t>(op)] || score != current[static_cast<std::size_t>(op)]) {
      continue;
    }
    done[static_cast<std::size_t>(op)] = 1;
    order.push_back(op);
    each_read(op, [&](ValueId v) {
      // Only the step from two readers to one changes the last reader's gain.
      if (--readers[static_cast<std::size_t>(v)] != 1) return;
      for (const OpId r : ready_readers[static_cast<std::size_t>(v)]) {
        if (!done[static_cast<std::size_t>(r)]) push(r);
      }
    });
    for (const OpId next : edges.behind[op]) {
      if (--waiting[static_cast<std::size_t>(next)] == 0) make_ready(next);
    }
  }
  return order;
}

// Depth first from the sinks; of an op's predecessors, the one with the largest need beyond what it
// leaves behind goes first (Sethi and Ullman's rule on a DAG taken as a tree).
std::vector<OpId> depth_first(const Graph& graph, const Edges& edges, bool by_size) {
  const auto n = static_cast<OpId>(graph.ops.size());
  const std::vector<std::int64_t> cost = arena_costs(graph);
  std::vector<std::int64_t> made(graph.ops.size(), 0), need(graph.ops.size(), 0);
  for (OpId op = 0; op < n; ++op) {
    for (const ValueId v : graph.outputs[op]) {
      if (v >= 0) made[static_cast<std::size_t>(op)] += cost[static_cast<std::size_t>(v)];
    }
  }
  std::vector<std::vector<OpId>> sorted(graph.ops.size());
  for (OpId op = 0; op < n; ++op) {
    auto& list = sorted[static_cast<std::size_t>(op)];
    list.assign(edges.before[op].begin(), edges.before[op].end());
    const auto excess = [&](OpId b) {
      return by_size ? made[static_cast<std::size_t>(b)]
                     : need[static_cast<std::size_t>(b)] - made[static_cast<std::size_t>(b)];
    };
    std::stable_sort(list.begin(), list.end(),
                     [&](OpId a, OpId b) { return excess(a) > excess(b); });
    std::int64_t held = 0, most = 0;
    for (const OpId b : list) {
      most = std::max(most, held + need[static_cast<std::size_t>(b)]);
      held += made[static_cast<std::size_t>(b)];
    }
    need[static_cast<std::size_t>(op)] =
        std::max(most, held + made[static_cast<std::size_t>(op)] +
                           graph.ops[static_cast<std::size_t>(op)].workspace);
  }
  std::vector<OpId> order;
  order.reserve(graph.ops.size());
  std::vector<char> seen(graph.ops.size(), 0);
  std::vector<std::pair<OpId, std::size_t>> stack;
  for (OpId sink = 0; sink < n; ++sink) {
    if (!edges.behind[sink].empty()) continue;
    stack.emplace_back(sink, 0);
    seen[static_cast<std::size_t>(sink)] = 1;
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      const auto& list = sorted[static_cast<std::size_t>(op)];
      if (next == list.size()) {
        order.push_back(op);
        stack.pop_back();
        continue;
      }
      const OpId b = list[next++];
      if (!seen[static_cast<std::size_t>(b)]) {
        seen[static_cast<std::size_t>(b)] = 1;
        stack.emplace_back(b, 0);
      }
    }
  }
  return order;
}

}  // namespace

std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed) {
  std::vector<OpId> textual(graph.ops.size());
  std::iota(textual.begin(), textual.end(), 0);
  std::vector<std::vector<OpId>> orders{textual};
  if (fixed) return orders;
  const Edges edges = find_edges(graph);
  orders.push_back(memory_greedy(graph, edges));
  orders.push_back(depth_first(graph, edges, false));
  orders.push_back(depth_first(graph, edges, true));
  return orders;
}

Problem arrange_best(const Graph& graph, bool fixed) {
  Problem best;
  std::int64_t best_peak = 0;
  double best_seconds = 0;
  for (const auto& order : candidate_orders(graph, fixed)) {
    Problem problem = arrange(graph, order, !fixed);
    Schedule schedule(static_cast<std::size_t>(problem.op_count()));
    std::iota(schedule.begin(), schedule.end(), 0);
    const Evaluation e = evaluate(problem, schedule);
    const std::int64_t peak = e.arena_peak + problem.output_bytes;
    if (best.graph != nullptr &&
        std::tuple(peak, e.seconds) >= std::tuple(best_peak, best_seconds)) {
      continue;
    }
    best = std::move(problem);
    best_peak = peak;
    best_seconds = e.seconds;
  }
  return best;
}

}  // namespace plimsoll::planner
