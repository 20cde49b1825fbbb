// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// A graph as its orders see it: which op must come before which, and what every op makes, reads and
// frees of the arena. Parameters, constants and results have fixed places and cost nothing.
struct OrderGraph {
  explicit OrderGraph(const Graph& graph);
  int size() const { return static_cast<int>(workspace.size()); }

  const Graph& graph;
  // Per op, each once. An update of a donated parameter comes after the parameter's other readers,
  // where the textual order has it so: else the old content would need a copy.
  Rows<OpId, OpId> before, behind;
  Rows<OpId, ValueId> reads, makes;        // per op, values of the arena, each once
  Rows<ValueId, OpId> readers;             // per value, the ops that read it
  IdVector<ValueId, std::int64_t> cost;    // per value, bytes of the arena
  IdVector<OpId, std::int64_t> workspace;  // per op; of control flow, its fastest callees'
};

// Bytes of the arena while each op of `order` runs, by liveness with in-place reuse.
std::vector<std::int64_t> profile_of(const OrderGraph& graph, std::span<const OpId> order);
std::int64_t peak_of(const OrderGraph& graph, std::span<const OpId> order);

// The bytes that `op` need not have for its outputs because an input that dies there lends them.
template <typename Dies>
std::int64_t reused_bytes(const OrderGraph& graph, OpId op, const Dies& dies) {
  std::int64_t bytes = 0;
  constexpr int kMost = 8;
  Reuse taken[kMost];
  int count = 0;
  for (const Reuse& r : graph.graph.reuse[op]) {
    if (count == kMost) break;
    if (graph.cost[r.input] == 0 || graph.cost[r.output] == 0 || !dies(r.input)) {
      continue;
    }
    bool used = false;
    for (int i = 0; i < count; ++i) {
      used = used || taken[i].input == r.input || taken[i].output == r.output;
    }
    if (used) continue;
    taken[count++] = r;
    bytes += graph.cost[r.output];
  }
  return bytes;
}

}  // namespace plimsoll::planner
