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
        waiting_(at(graph.size())),
        current_(at(graph.size()), 0),
        ready_(at(graph.size()), 0),
        pending_(graph.cost.size(), 0) {}

  std::vector<OpId> run(std::span<const OpId> fallback, std::int64_t eager) {
    const auto& first = reverse_ ? graph_.behind : graph_.before;
    const auto& then = reverse_ ? graph_.before : graph_.behind;
    if (!reverse_) {
      for (const ValueId v : graph_.reads.items) ++pending_[v];
    }
    order_.reserve(ready_.size());
    for (const OpId op : ready_.ids()) {
      waiting_[op] = static_cast<std::int32_t>(first[op].size());
    }
    for (const OpId op : ready_.ids()) {
      if (waiting_[op] == 0) make_ready(op);
    }
    std::size_t next = 0;
    while (order_.size() < ready_.size()) {
      OpId op = pop(fallback.empty() ? kAnything : eager);
      if (op < 0) {
        while (ready_[fallback[next]] == kDone) ++next;
        op = fallback[next];
      }
      execute(op);
      for (const OpId follower : then[op]) {
        if (--waiting_[follower] == 0) make_ready(follower);
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
        bytes -= graph_.cost[v];
      } else if (pending_[v] != 0) {
        bytes += graph_.cost[v];
      }
    }
    for (const ValueId v : graph_.reads[op]) {
      if (!reverse_) {
        if (pending_[v] == 1) bytes += graph_.cost[v];
      } else if (pending_[v] == 0) {
        bytes -= graph_.cost[v];
      }
    }
    return bytes;
  }

  void push(OpId op) {
    current_[op] = gain(op);
    queue_.emplace(current_[op], reverse_ ? op.value() : -op.value());
  }
  void make_ready(OpId op) {
    ready_[op] = kReady;
    push(op);
  }

  OpId pop(std::int64_t least) {
    while (!queue_.empty() && queue_.top().first >= least) {
      const auto [score, key] = queue_.top();
      queue_.pop();
      const OpId op(reverse_ ? key : -key);
      if (ready_[op] == kReady && score == current_[op]) return op;
    }
    return {};
  }

  void execute(OpId op) {
    ready_[op] = kDone;
    order_.push_back(op);
    for (const ValueId v : graph_.reads[op]) {
      // Only the step from two readers to one, backwards from none to one, changes others' gains.
      const bool changes = reverse_ ? pending_[v]++ == 0 : --pending_[v] == 1;
      if (!changes) continue;
      for (const OpId reader : graph_.readers[v]) {
        if (ready_[reader] == kReady) push(reader);
      }
    }
  }

  const OrderGraph& graph_;
  const bool reverse_;
  IdVector<OpId, std::int32_t> waiting_;
  IdVector<OpId, std::int64_t> current_;
  IdVector<OpId, char> ready_;
  IdVector<ValueId, std::int32_t> pending_;
  std::priority_queue<std::pair<std::int64_t, std::int32_t>> queue_;  // gain, rank of the op
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
  const std::size_t n = at(graph.size());
  IdVector<OpId, std::int64_t> made(n, 0), need(n, 0);
  std::vector<OpId> sorted = graph.before.items;
  const auto row = [&](OpId op) {
    return std::span(sorted.data() + graph.before.begin[at(op)],
                     sorted.data() + graph.before.begin[at(op) + 1]);
  };
  for (const OpId op : made.ids()) {
    for (const ValueId v : graph.makes[op]) made[op] += graph.cost[v];
    const auto list = row(op);
    const auto excess = [&](OpId b) { return by_size ? made[b] : need[b] - made[b]; };
    std::stable_sort(list.begin(), list.end(),
                     [&](OpId a, OpId b) { return excess(a) > excess(b); });
    std::int64_t held = 0, most = 0;
    for (const OpId b : list) {
      most = std::max(most, held + need[b]);
      held += made[b];
    }
    need[op] = std::max(most, held + made[op] + graph.workspace[op]);
  }
  std::vector<OpId> order;
  order.reserve(n);
  IdVector<OpId, char> seen(n, 0);
  std::vector<std::pair<OpId, std::size_t>> stack;
  for (const OpId sink : seen.ids()) {
    if (!graph.behind[sink].empty()) continue;
    stack.emplace_back(sink, 0);
    seen[sink] = 1;
    while (!stack.empty()) {
      auto& [op, next] = stack.back();
      const auto list = row(op);
      if (next == list.size()) {
        order.push_back(op);
        stack.pop_back();
        continue;
      }
      const OpId b = list[next++];
      if (!seen[b]) {
        seen[b] = 1;
        stack.emplace_back(b, 0);
      }
    }
  }
  return order;
}

std::vector<OpId> level_order(const OrderGraph& graph) {
  IdVector<OpId, std::int32_t> level(at(graph.size()), 0);
  for (const OpId op : level.ids()) {
    for (const OpId b : graph.before[op]) level[op] = std::max(level[op], level[b] + 1);
  }
  std::vector<OpId> order(at(graph.size()));
  std::iota(order.begin(), order.end(), OpId(0));
  std::stable_sort(order.begin(), order.end(), [&](OpId a, OpId b) { return level[a] < level[b]; });
  return order;
}

}  // namespace plimsoll::planner
