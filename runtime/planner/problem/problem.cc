// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/problem.h"

#include <algorithm>

#include "runtime/planner/problem/problem_builder.h"

namespace plimsoll::planner {
double copy_seconds(std::int64_t bytes) {
  // Only the order of magnitude matters to decisions.
  constexpr double kSecondsPerByte = 1.0 / 8e9, kLaunchSeconds = 2e-6;
  return static_cast<double>(bytes) * kSecondsPerByte + kLaunchSeconds;
}

// A value that comes from a donated parameter can be computed again only before the parameter is
// overwritten. Example: a = f(w), b = g(a), w is overwritten at op 40. a can be made until op 40;
// b, too, unless a is sure to be there later (live out). The deadline of a value is the least of
// what it is made from.
// A value that comes from a donated parameter can be computed again only before the parameter is
// overwritten. Example: a = f(w), b = g(a), w is overwritten at op 40. a can be made until op 40;
// b, too, unless a is sure to be there later (live out). The deadline of a value is the least of
// what it is made from.
IdVector<ValueId, OpId> find_deadlines(const Problem& problem) {
  IdVector<ValueId, OpId> deadlines(problem.values.size());
  for (const ValueId v : deadlines.ids()) deadlines[v] = problem.values[v].overwritten;
  for (const OpId op : problem.ops.ids()) {
    OpId deadline = kNever;
    for (const ValueId v : problem.reads[op]) {
      const Value& input = problem.values[v];
      if (input.producer < 0) {
        deadline = std::min(deadline, input.overwritten);
      } else if (input.home == Home::arena && !input.live_out) {
        deadline = std::min(deadline, deadlines[v]);
      }
    }
    for (const ValueId v : problem.outputs[op]) {
      if (v < 0) continue;
      deadlines[v] = deadline;
      if (!problem.ops[op].recomputable) {
        const auto uses = problem.uses[v];
        deadlines[v] = uses.empty() ? op : uses.back();
      }
    }
  }
  return deadlines;
}

Problem reordered(const Problem& problem, std::span<const OpId> order) {
  ProblemBuilder builder(problem);
  for (const OpId op : order) builder.copy_op(op);
  return builder.finish();
}

}  // namespace plimsoll::planner
