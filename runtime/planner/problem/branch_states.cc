// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/branch_states.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::planner {
namespace {

// Values that are looked at for where a result comes from; beyond them a chance is missed.
constexpr std::size_t kMostSeen = 64;

// The parameter leaves of a branch that result leaf `k` is, or may be computed in the place of.
std::vector<int> starts_of(const Graph& branch, std::size_t k) {
  std::vector<int> starts;
  std::vector<ValueId> seen{branch.results[k]};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] < 0) continue;
    const Value& value = branch.values[seen[i]];
    if (value.home == Home::parameter) starts.push_back(value.index);
    if (value.producer < 0) continue;
    for (const Reuse& reuse : branch.reuse[value.producer]) {
      if (reuse.output == seen[i] && seen.size() < kMostSeen &&
          std::find(seen.begin(), seen.end(), reuse.input) == seen.end()) {
        seen.push_back(reuse.input);
      }
    }
  }
  return starts;
}

class Finder {
 public:
  Finder(const Graph& graph, OpId op, std::span<const Graph* const> branches)
      : graph_(graph), op_(op), branches_(branches), inputs_(graph.inputs[op]) {
    std::size_t next = 1;  // behind the predicate
    for (const Graph* branch : branches) {
      first_.push_back(next);
      next += branch->parameters.size();
    }
    first_.push_back(next);
    read_later_.assign(graph.values.size(), false);
    for (OpId later(op.value() + 1); later < graph.ops.end_id(); later = OpId(later.value() + 1)) {
      for (const ValueId v : graph.inputs[later]) mark(v);
      for (const ValueId v : graph.held[later]) mark(v);
    }
    for (const ValueId v : graph.results) mark(v);
  }

  std::vector<BranchState> find() {
    std::vector<BranchState> states;
    const auto outputs = graph_.outputs[op_];
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k] < 0) continue;
      BranchState state{static_cast<int>(k), value_for(k), {}};
      if (state.value < 0) continue;
      for (std::size_t b = 0; b < branches_.size(); ++b) {
        state.leaves.push_back(leaf_of(b, state.value));
      }
      read_later_[state.value] = true;  // by this result's branches: not another's, too
      states.push_back(std::move(state));
    }
    return states;
  }

 private:
  void mark(ValueId v) {
    if (v >= 0) read_later_[v] = true;
  }

  int leaf_of(std::size_t branch, ValueId v) const {
    for (std::size_t i = first_[branch]; i < first_[branch + 1]; ++i) {
      if (inputs_[i] == v) return static_cast<int>(i - first_[branch]);
    }
    return -1;
  }

  // Of those that some branch starts from, the one that most do.
  ValueId value_for(std::size_t k) const {
    std::vector<ValueId> started;  // once per branch that starts from it
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      std::vector<ValueId> of_branch;
      for (const int leaf : starts_of(*branches_[b], k)) {
        const ValueId v = inputs_[first_[b] + at(leaf)];
        if (may_stay(v, graph_.outputs[op_][k]) &&
            std::find(of_branch.begin(), of_branch.end(), v) == of_branch.end()) {
          of_branch.push_back(v);
        }
      }
      started.insert(started.end(), of_branch.begin(), of_branch.end());
    }
    ValueId best;
    std::ptrdiff_t most = 0;
    for (const ValueId v : started) {
      const auto count = std::count(started.begin(), started.end(), v);
      if (count > most) {
        most = count;
        best = v;
      }
    }
    std::ptrdiff_t readers = 0;
    for (std::size_t b = 0; b < branches_.size(); ++b) readers += leaf_of(b, best) >= 0 ? 1 : 0;
    return 2 * most >= readers ? best : ValueId();
  }

  // Nothing reads it afterwards, it may be written, and no branch reads it twice.
  bool may_stay(ValueId v, ValueId result) const {
    if (v < 0 || read_later_[v] || bytes_of(v) != bytes_of(result) || inputs_[0] == v) return false;
    const Value& value = graph_.values[v];
    const bool is_own = value.home == Home::arena ||
                        (value.home == Home::parameter &&
                         graph_.residency[at(value.index)] == ParameterResidency::donated);
    if (!is_own) return false;
    for (std::size_t b = 0; b < branches_.size(); ++b) {
      const auto begin = inputs_.begin() + static_cast<std::ptrdiff_t>(first_[b]);
      const auto end = inputs_.begin() + static_cast<std::ptrdiff_t>(first_[b + 1]);
      if (std::count(begin, end, v) > 1) return false;
    }
    return true;
  }

  std::int64_t bytes_of(ValueId v) const {
    const Value& value = graph_.values[v];
    return ir::leaves(value.source->shape())[at(value.leaf)]->byte_size();
  }

  const Graph& graph_;
  const OpId op_;
  const std::span<const Graph* const> branches_;
  const std::span<const ValueId> inputs_;
  std::vector<std::size_t> first_;  // per branch, its first input; and the number of inputs
  IdVector<ValueId, char> read_later_;
};

}  // namespace

std::vector<BranchState> find_branch_states(const Graph& graph, OpId op,
                                            std::span<const Graph* const> branches) {
  return Finder(graph, op, branches).find();
}

}  // namespace plimsoll::planner
