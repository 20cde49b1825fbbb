// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/list_schedulers.h"

#include <algorithm>
#include <numeric>
#include <queue>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

// A list schedule of the graph or, `reverse`, of the graph with all edges turned round: there a
// value appears with its first reader in that direction and goes with its producer. Runs what has a
// gain of at least `eager` first, largest gain first, and otherwise what `fallback` has next
// (without one: the largest gain).
//
// A list schedule always runs the best op of those that are ready. An op's gain is the bytes that
// it frees less those that it makes. A gain changes only when one of the op's operands is down to
// its last reader, so that the queue is updated there and nowhere else; entries with an old gain
// are skipped when they come up.
class ListSchedule {
 public:
  ListSchedule(const OrderGraph& graph, bool reverse)
      : graph_(graph),
        reverse_(reverse),
        waiting_(static_cast<std::size_t>(graph.size())),
        current_(static_cast<std::size_t>(graph.size()), 0),
        ready_(static_cast<std::size_t>(graph.size()), 0),
        pending_(graph.cost.size(), 0) {}

  std::vector<OpId> run(std::span<const OpId> fallback, std::int64_t eager) {
    const OpId n = graph_.size();
    const Rows& first = reverse_ ? graph_.behind : graph_.before;
    const Rows& then = reverse_ ? graph_.before : graph_.behind;
    if (!reverse_) {
      for (const ValueId v : graph_.reads.items) ++pending_[at(v)];
    }
    order_.reserve(at(n));
    for (OpId op = 0; op < n; ++op) {
      waiting_[at(op)] = static_cast<std::int32_t>(first[op].size());
    }
    for (OpId op = 0; op < n; ++op) {
      if (waiting_[at(op)] == 0) make_ready(op);
    }
    std::size_t next = 0;
    while (order_.size() < at(n)) {
      OpId op = pop(fallback.empty() ? kAnything : eager);
      if (op < 0) {
        while (ready_[at(fallback[next])] == kDone) ++next;
        op = fallback[next];
      }
      execute(op);
      for (const OpId follower : then[op]) {
        if (--waiting_[at(follower)] == 0) make_ready(follower);
      }
    }
    if (reverse_) std::reverse(order_.begin(), order_.end());
    return std::move(order_);
  }

 private:
  static constexpr std::int64_t kAnything = std::numeric_limits<std::int64_t>::min();
  enum : char { kWaiting = 0, kReady = 1, kDone = 2 };

  // Forward, pending_ counts the readers of a value that are still to run; backward it says whether
  // one of them has.
  std::int64_t gain(OpId op) const {
    std::int64_t bytes = 0;
    for (const ValueId v : graph_.makes[op]) {
      if (!reverse_) {
        bytes -= graph_.cost[at(v)];
      } else if (pending_[at(v)] != 0) {
        bytes += graph_.cost[at(v)];
      }
    }
    for (const ValueId v : graph_.reads[op]) {
      if (!reverse_) {
        if (pending_[at(v)] == 1) bytes += graph_.cost[at(v)];
      } else if (pending_[at(v)] == 0) {
        bytes -= graph_.cost[at(v)];
      }
    }
    return bytes;
  }

  void push(OpId op) {
    current_[at(op)] = gain(op);
    queue_.emplace(current_[at(op)], reverse_ ? op : -op);
  }
  void make_ready(OpId op) {
    ready_[at(op)] = kReady;
    push(op);
  }

  OpId pop(std::int64_t least) {
    while (!queue_.empty() && queue_.top().first >= least) {
      const auto [score, key] = queue_.top();
      queue_.pop();
      const OpId op = reverse_ ? key : -key;
      if (ready_[at(op)] == kReady && score == current_[at(op)]) return op;
    }
    return -1;
  }

  void execute(OpId op) {
    ready_[at(op)] = kDone;
    order_.push_back(op);
    for (const ValueId v : graph_.reads[op]) {
      // Only the step from two readers to one, backwards from none to one, changes others' gains.
      const bool changes = reverse_ ? pending_[at(v)]++ == 0 : --pending_[at(v)] == 1;
      if (!changes) continue;
      for (const OpId reader : graph_.readers[v]) {
        if (ready_[at(reader)] == kReady) push(reader);
      }
    }
  }

  const OrderGraph& graph_;
  const bool reverse_;
  std::vector<std::int32_t> waiting_;
  std::vector<std::int64_t> current_;
  std::vector<char> ready_;
  std::vector<std::int32_t> pending_;
  std::priority_queue<std::pair<std::int64_t, OpId>> queue_;
  std::vector<OpId> order_;
};

}  // namespace

std::vector<OpId> memory_greedy_order(const OrderGraph& graph) {
  return ListSchedule(graph, false).run({}, 0);
}

std::vector<OpId> reverse_greedy_order(const OrderGraph& graph) {
  return ListSchedule(graph, true).run({}, 0);
}

std::vector<OpId> eager_order(const OrderGraph& graph, std::span<const OpId> order) {
  return ListSchedule(graph, false).run(order, 1);
}

std::vector<OpId> lazy_order(const OrderGraph& graph, std::span<const OpId> order) {
  const std::vector<OpId> backwards(order.rbegin(), order.rend());
  return ListSchedule(graph, true).run(backwards, 1);
}

// Sethi and Ullman (1970): of two subtrees, evaluating first the one that needs more *beyond what
// it leaves behind* needs less in all. Example: left needs 10 and leaves 2, right needs 9 and
// leaves 8. Left first: max(10, 2 + 9) = 11; right first: max(9, 8 + 10) = 18. On a DAG shared
// subtrees are evaluated with the first that asks; the rule is then a good guess only.
std::vector<OpId> depth_first_order(const OrderGraph& graph, bool by_size) {
  const OpId n = graph.size();
  std::vector<std::int64_t> made(at(n), 0), need(at(n), 0);
  std::vector<std::int32_t> sorted = graph.before.items;
  const auto row = [&](OpId op) {
    return std::span(sorted.data() + graph.before.begin[at(op)],
                     sorted.data() + graph.before.begin[at(op) + 1]);
  };
  for (OpId op = 0; op < n; ++op) {
    for (const ValueId v : graph.makes[op]) made[at(op)] += graph.cost[at(v)];
    const auto list = row(op);
    const auto excess = [&](OpId b) { return by_size ? made[at(b)] : need[at(b)] - made[at(b)]; };
    std::stable_sort(list.begin(), list.end(),
                     [&](OpId a, OpId b) { return excess(a) > excess(b); });
    std::int64_t held = 0, most = 0;
    for (const OpId b : list) {
      most = std::max(most, held + need[at(b)]);
      held += made[at(b)];
    }
    need[at(op)] = std::max(most, held + made[at(op)] + graph.workspace[at(op)]);
  }
  std::vector<OpId> order;
  order.reserve(at(n));
  std::vector<char> seen(at(n), 0);
  std::vector<std::pair<OpId, std::size_t>> stack;
  for (OpId sink = 0; sink < n; ++sink) {
    if (!graph.behind[sink].empty()) continue;
    stack.emplace_back(sink, 0);
    seen[at(sink)] = 1;
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      const auto list = row(op);
      if (next == list.size()) {
        order.push_back(op);
        stack.pop_back();
        continue;
      }
      const OpId b = list[next++];
      if (!seen[at(b)]) {
        seen[at(b)] = 1;
        stack.emplace_back(b, 0);
      }
    }
  }
  return order;
}

std::vector<OpId> level_order(const OrderGraph& graph) {
  std::vector<std::int32_t> level(at(graph.size()), 0);
  for (OpId op = 0; op < graph.size(); ++op) {
    for (const OpId b : graph.before[op]) level[at(op)] = std::max(level[at(op)], level[at(b)] + 1);
  }
  std::vector<OpId> order(at(graph.size()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](OpId a, OpId b) { return level[at(a)] < level[at(b)]; });
  return order;
}

}  // namespace plimsoll::planner
