// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/problem.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::planner {
double copy_seconds(std::int64_t bytes) {
  // Only the order of magnitude matters to decisions.
  constexpr double kSecondsPerByte = 1.0 / 8e9, kLaunchSeconds = 2e-6;
  return static_cast<double>(bytes) * kSecondsPerByte + kLaunchSeconds;
}

Rows find_uses(const Rows& reads, std::size_t value_count) {
  Rows uses;
  std::vector<std::int32_t> fill(value_count + 1, 0);
  for (const ValueId v : reads.items) ++fill[at(v) + 1];
  for (std::size_t v = 0; v < value_count; ++v) fill[v + 1] += fill[v];
  uses.begin = fill;
  uses.items.resize(reads.items.size());
  for (OpId op = 0; op < reads.size(); ++op) {
    for (const ValueId v : reads[op]) uses.items[at(fill[at(v)]++)] = op;
  }
  return uses;
}

std::vector<OpId> find_deadlines(const Problem& problem) {
  std::vector<OpId> deadlines(problem.values.size());
  for (std::size_t v = 0; v < deadlines.size(); ++v) deadlines[v] = problem.values[v].overwritten;
  for (OpId op = 0; op < problem.op_count(); ++op) {
    OpId deadline = kNever;
    for (const ValueId v : problem.reads[op]) {
      const Value& input = problem.values[at(v)];
      if (input.producer < 0) {
        deadline = std::min(deadline, input.overwritten);
      } else if (input.home == Home::arena && !input.live_out) {
        deadline = std::min(deadline, deadlines[at(v)]);
      }
    }
    for (const ValueId v : problem.outputs[op]) {
      if (v < 0) continue;
      deadlines[at(v)] = deadline;
      if (!problem.ops[at(op)].recomputable) {
        const auto uses = problem.uses[v];
        deadlines[at(v)] = uses.empty() ? op : uses.back();
      }
    }
  }
  return deadlines;
}

Problem reordered(const Problem& problem, std::span<const OpId> order) {
  Problem result = problem;
  std::vector<OpId> place(order.size());
  result.ops.clear();
  result.variant.clear();
  result.reuse.clear();
  const auto take = [&](const Rows& from, Rows& to) {
    to = Rows();
    for (const OpId op : order) {
      for (const std::int32_t item : from[op]) to.push(item);
      to.close();
    }
  };
  for (std::size_t k = 0; k < order.size(); ++k) {
    place[at(order[k])] = static_cast<OpId>(k);
    result.ops.push_back(problem.ops[at(order[k])]);
    result.variant.push_back(problem.variant[at(order[k])]);
    result.reuse.push_back(problem.reuse[at(order[k])]);
  }
  take(problem.inputs, result.inputs);
  take(problem.outputs, result.outputs);
  take(problem.reads, result.reads);
  for (Value& value : result.values) {
    if (value.producer >= 0) value.producer = place[at(value.producer)];
    if (value.overwritten != kNever) value.overwritten = place[at(value.overwritten)];
  }
  result.uses = find_uses(result.reads, result.values.size());
  result.deadline = find_deadlines(result);
  return result;
}

}  // namespace plimsoll::planner
