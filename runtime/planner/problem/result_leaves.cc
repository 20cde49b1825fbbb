// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/result_leaves.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

class ResultLeaves {
 public:
  explicit ResultLeaves(const Graph& graph) : graph_(graph) {
    leaf_.assign(graph.values.size(), -1);
    claimed_.assign(graph.values.size(), 0);
    readers_.assign(graph.values.size(), 0);
    for (const OpId op : graph.ops.ids()) {
      seen_.clear();
      for (const ValueId v : graph.inputs[op]) count(v);
      for (const ValueId v : graph.held[op]) count(v);
    }
    // A download reads what it takes to the host.
    for (std::size_t k = 0; k < graph.results.size(); ++k) {
      if (graph.results[k] >= 0 && graph.is_on_host(k)) ++readers_[graph.results[k]];
    }
  }

  IdVector<ValueId, std::int32_t> find() && {
    for (std::size_t k = 0; k < graph_.results.size(); ++k) {
      const ValueId v = graph_.results[k];
      if (v < 0 || claimed_[v] != 0 || graph_.values[v].producer < 0) continue;
      if (graph_.is_on_host(k)) continue;
      claimed_[v] = 1;
      if (graph_.alias[k] < 0) leaf_[v] = static_cast<std::int32_t>(k);
    }
    // Once each: a value may be several results.
    for (std::size_t k = 0; k < graph_.results.size(); ++k) {
      const ValueId v = graph_.results[k];
      if (v >= 0 && leaf_[v] == static_cast<std::int32_t>(k)) follow(v);
    }
    return std::move(leaf_);
  }

 private:
  // Each op once.
  void count(ValueId v) {
    if (v < 0 || std::find(seen_.begin(), seen_.end(), v) != seen_.end()) return;
    if (seen_.size() < 64) seen_.push_back(v);  // beyond it a value may count twice, and stays out
    ++readers_[v];
  }

  void follow(ValueId v) {
    for (;;) {
      const OpId op = graph_.values[v].producer;
      if (op < 0 || !runs_once(op)) return;
      ValueId from;
      for (const Reuse& r : graph_.reuse[op]) {
        if (from < 0 && r.output == v && may_stand_in(r.input)) from = r.input;
      }
      if (from < 0) return;
      leaf_[from] = leaf_[v];
      v = from;
    }
  }

  // Nobody reads of it later what is not in a fixed place, so that nothing asks for it again.
  bool runs_once(OpId op) const {
    for (const ValueId v : graph_.outputs[op]) {
      if (v >= 0 && leaf_[v] < 0 && (readers_[v] > 0 || claimed_[v] != 0)) return false;
    }
    return true;
  }

  bool may_stand_in(ValueId v) const {
    const OpId producer = graph_.values[v].producer;
    if (producer < 0 || claimed_[v] != 0 || leaf_[v] >= 0 || readers_[v] != 1) return false;
    const auto outputs = graph_.outputs[producer];
    return graph_.values[v].home == Home::arena && !graph_.values[v].keep &&
           std::count_if(outputs.begin(), outputs.end(), [](ValueId o) { return o >= 0; }) == 1;
  }

  const Graph& graph_;
  IdVector<ValueId, std::int32_t> leaf_, readers_;
  IdVector<ValueId, char> claimed_;
  std::vector<ValueId> seen_;
};

}  // namespace

IdVector<ValueId, std::int32_t> result_leaves(const Graph& graph) {
  return ResultLeaves(graph).find();
}

}  // namespace plimsoll::planner
