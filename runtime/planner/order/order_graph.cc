// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/order/order_graph.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

// Row r of the result lists the rows of `rows` that hold r.
Rows inverse(const Rows& rows, std::size_t count) {
  Rows result;
  result.begin.assign(count + 1, 0);
  for (const std::int32_t item : rows.items) ++result.begin[at(item) + 1];
  for (std::size_t i = 0; i < count; ++i) result.begin[i + 1] += result.begin[i];
  result.items.resize(rows.items.size());
  std::vector<std::int32_t> fill(result.begin.begin(), result.begin.end() - 1);
  for (std::int32_t row = 0; row < rows.size(); ++row) {
    for (const std::int32_t item : rows[row]) result.items[at(fill[at(item)]++)] = row;
  }
  return result;
}

void push_unique(Rows& rows, std::vector<std::int32_t>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  rows.items.insert(rows.items.end(), list.begin(), list.end());
  rows.close();
}

// Per op, the donated parameters whose buffers its results go to.
std::vector<std::pair<OpId, ValueId>> updates_of(const Graph& graph) {
  std::vector<std::pair<OpId, ValueId>> updates;
  for (std::size_t k = 0; k < graph.results.size(); ++k) {
    const ValueId v = graph.results[k];
    if (v < 0 || graph.alias[k] < 0 || graph.values[at(v)].producer < 0) continue;
    const ValueId old = graph.parameters[at(graph.alias[k])];
    if (old >= 0) updates.emplace_back(graph.values[at(v)].producer, old);
  }
  std::sort(updates.begin(), updates.end());
  return updates;
}

}  // namespace

OrderGraph::OrderGraph(const Graph& of) : graph(of) {
  const auto ops = static_cast<OpId>(of.ops.size());
  cost.resize(of.values.size());
  for (std::size_t v = 0; v < cost.size(); ++v) {
    cost[v] = of.values[v].producer >= 0 ? of.values[v].bytes : 0;
  }
  for (const ValueId v : of.results) {
    if (v >= 0) cost[at(v)] = 0;
  }
  workspace.resize(of.ops.size());
  for (std::size_t op = 0; op < of.ops.size(); ++op) {
    const Op& what = of.ops[op];
    workspace[op] =
        what.variants < 0 ? what.workspace : of.variants[at(what.variants)].front().arena_bytes;
  }

  // Readers of donated parameters, which their update has to wait for.
  const auto updates = updates_of(of);
  std::vector<std::vector<OpId>> parameter_readers(updates.size());
  std::vector<std::int32_t> update_of(of.values.size(), -1);
  for (std::size_t u = 0; u < updates.size(); ++u) {
    update_of[at(updates[u].second)] = static_cast<std::int32_t>(u);
  }
  std::size_t next_update = 0;
  std::vector<std::int32_t> list, values;
  for (OpId op = 0; op < ops; ++op) {
    list.assign(of.after[op].begin(), of.after[op].end());
    values.clear();
    const auto read = [&](ValueId v) {
      if (v < 0) return;
      const OpId producer = of.values[at(v)].producer;
      if (producer >= 0) list.push_back(producer);
      if (cost[at(v)] > 0) values.push_back(v);
      if (update_of[at(v)] >= 0) parameter_readers[at(update_of[at(v)])].push_back(op);
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
      if (v >= 0 && cost[at(v)] > 0) makes.push(v);
    }
    makes.close();
  }
  behind = inverse(before, of.ops.size());
  readers = inverse(reads, of.values.size());
}

// A liveness sweep: a value takes bytes from the position of its producer to that of its last
// reader; what nobody reads takes them at its producer alone. Where an operand dies and the op may
// work in place, the output's bytes are the operand's.
std::vector<std::int64_t> profile_of(const OrderGraph& graph, std::span<const OpId> order) {
  std::vector<std::int32_t> last(graph.cost.size(), -1);
  for (std::size_t t = 0; t < order.size(); ++t) {
    for (const ValueId v : graph.reads[order[t]]) last[at(v)] = static_cast<std::int32_t>(t);
  }
  std::vector<std::int64_t> profile(order.size());
  std::int64_t live = 0;
  for (std::size_t t = 0; t < order.size(); ++t) {
    const OpId op = order[t];
    const auto now = static_cast<std::int32_t>(t);
    std::int64_t dead = 0;
    for (const ValueId v : graph.makes[op]) {
      live += graph.cost[at(v)];
      if (last[at(v)] < 0) dead += graph.cost[at(v)];
    }
    for (const ValueId v : graph.reads[op]) {
      if (last[at(v)] == now) dead += graph.cost[at(v)];
    }
    const std::int64_t reused =
        dead == 0 ? 0 : reused_bytes(graph, op, [&](ValueId v) { return last[at(v)] == now; });
    profile[t] = live + graph.workspace[at(op)] - reused;
    live -= dead;
  }
  return profile;
}

std::int64_t peak_of(const OrderGraph& graph, std::span<const OpId> order) {
  const std::vector<std::int64_t> profile = profile_of(graph, order);
  return profile.empty() ? 0 : *std::max_element(profile.begin(), profile.end());
}

}  // namespace plimsoll::planner
