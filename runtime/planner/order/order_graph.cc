// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/order_graph.h"

#include <algorithm>

#include "runtime/base/index.h"
#include "runtime/planner/problem/result_leaves.h"

namespace plimsoll::planner {
namespace {

template <typename Id>
void push_unique(Rows<OpId, Id>& rows, std::vector<Id>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  rows.push_row(list);
}

// Per op, the donated parameters whose buffers its results go to.
std::vector<std::pair<OpId, ValueId>> updates_of(const Graph& graph) {
  std::vector<std::pair<OpId, ValueId>> updates;
  for (std::size_t k = 0; k < graph.results.size(); ++k) {
    const ValueId v = graph.results[k];
    if (v < 0 || graph.alias[k] < 0 || graph.values[v].producer < 0) continue;
    const ValueId old = graph.parameters[at(graph.alias[k])];
    if (old >= 0) updates.emplace_back(graph.values[v].producer, old);
  }
  std::sort(updates.begin(), updates.end());
  return updates;
}

}  // namespace

OrderGraph::OrderGraph(const Graph& of) : graph(of) {
  cost.resize(of.values.size());
  for (const ValueId v : cost.ids()) {
    cost[v] = of.values[v].producer >= 0 ? of.values[v].bytes : 0;
  }
  for (const ValueId v : of.results) {
    if (v >= 0) cost[v] = 0;
  }
  if (of.role != Role::body) {
    const auto leaf = result_leaves(of);
    for (const ValueId v : leaf.ids()) {
      if (leaf[v] >= 0) cost[v] = 0;
    }
  }
  workspace.resize(of.ops.size());
  for (const OpId op : of.ops.ids()) {
    const Op& what = of.ops[op];
    workspace[op] =
        what.variants < 0 ? what.workspace : of.variants[at(what.variants)].front().arena_bytes;
  }

  // Readers of donated parameters, which their update has to wait for.
  const auto updates = updates_of(of);
  std::vector<std::vector<OpId>> parameter_readers(updates.size());
  IdVector<ValueId, std::int32_t> update_of(of.values.size(), -1);
  for (std::size_t u = 0; u < updates.size(); ++u) {
    update_of[updates[u].second] = static_cast<std::int32_t>(u);
  }
  std::size_t next_update = 0;
  std::vector<OpId> list;
  std::vector<ValueId> values;
  for (const OpId op : of.ops.ids()) {
    list.assign(of.after[op].begin(), of.after[op].end());
    values.clear();
    const auto read = [&](ValueId v) {
      if (v < 0) return;
      const OpId producer = of.values[v].producer;
      if (producer >= 0) list.push_back(producer);
      if (cost[v] > 0) values.push_back(v);
      if (update_of[v] >= 0) parameter_readers[at(update_of[v])].push_back(op);
    };
    for (const ValueId v : of.inputs[op]) read(v);
    for (const ValueId v : of.held[op]) read(v);
    while (next_update < updates.size() && updates[next_update].first == op) {
      const auto& readers_before = parameter_readers[next_update++];
      for (const OpId reader : readers_before) {
        if (reader != op) list.push_back(reader);
      }
    }
    push_unique(before, list);
    push_unique(reads, values);
    for (const ValueId v : of.outputs[op]) {
      if (v >= 0 && cost[v] > 0) makes.push(v);
    }
    makes.close();
  }
  behind = invert(before, of.ops.size());
  readers = invert(reads, of.values.size());
}

// A liveness sweep: a value takes bytes from the position of its producer to that of its last
// reader; what nobody reads takes them at its producer alone. Where an operand dies and the op may
// work in place, the output's bytes are the operand's.
std::vector<std::int64_t> profile_of(const OrderGraph& graph, std::span<const OpId> order) {
  IdVector<ValueId, std::int32_t> last(graph.cost.size(), -1);
  for (std::size_t t = 0; t < order.size(); ++t) {
    for (const ValueId v : graph.reads[order[t]]) last[v] = static_cast<std::int32_t>(t);
  }
  std::vector<std::int64_t> profile(order.size());
  std::int64_t live = 0;
  for (std::size_t t = 0; t < order.size(); ++t) {
    const OpId op = order[t];
    const auto now = static_cast<std::int32_t>(t);
    std::int64_t dead = 0;
    for (const ValueId v : graph.makes[op]) {
      live += graph.cost[v];
      if (last[v] < 0) dead += graph.cost[v];
    }
    for (const ValueId v : graph.reads[op]) {
      if (last[v] == now) dead += graph.cost[v];
    }
    const std::int64_t reused =
        dead == 0 ? 0 : reused_bytes(graph, op, [&](ValueId v) { return last[v] == now; });
    profile[t] = live + graph.workspace[op] - reused;
    live -= dead;
  }
  return profile;
}

std::int64_t peak_of(const OrderGraph& graph, std::span<const OpId> order) {
  const std::vector<std::int64_t> profile = profile_of(graph, order);
  return profile.empty() ? 0 : *std::max_element(profile.begin(), profile.end());
}

}  // namespace plimsoll::planner
