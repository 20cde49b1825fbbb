// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/callee_bytes.h"

#include <algorithm>
#include <array>

#include "runtime/base/index.h"
#include "runtime/planner/problem/arrange.h"

namespace plimsoll::planner {
namespace {

const std::vector<Variant>& variants_of(const Problem& problem, OpId op) {
  return problem.graph->variants[at(problem.ops[op].variants)];
}

// The fastest variant of at most `bytes`, or the smallest.
int fastest_within(const std::vector<Variant>& row, std::int64_t bytes) {
  int choice = 0;
  while (choice + 1 < static_cast<int>(row.size()) && row[at(choice)].arena_bytes > bytes) {
    ++choice;
  }
  return choice;
}

}  // namespace

std::span<const CalleeBytes> callee_bytes(const Graph& graph) {
  static constexpr std::array<CalleeBytes, 4> kShares = {
      CalleeBytes{true, 1}, CalleeBytes{false, 1}, CalleeBytes{false, 0.5}, CalleeBytes{false, 0}};
  constexpr std::size_t kFewOps = 3'000;
  if (graph.variants.empty()) return std::span(kShares).first(1);
  return graph.ops.size() <= kFewOps ? std::span(kShares) : std::span(kShares).first(2);
}

// Example: a loop's body has three plans, of 80, 50 and 30 MB (8, 10 and 15 s); 100 MB are the
// limit, 40 MB live across the loop when nothing is evicted, 10 MB of them are its operands. Beside
// everything there are 60 MB: the plan of 50 MB. Giving it all but its operands leaves 90 MB: the
// plan of 80 MB, for which the caller must evict. Which of the two is faster in the end only
// planning both tells; hence several tries.
void choose_callees(Problem& problem, std::span<const std::int64_t> profile,
                    std::int64_t arena_limit, const CalleeBytes& given) {
  for (const OpId op : problem.ops.ids()) {
    if (problem.ops[op].variants < 0) continue;
    const std::vector<Variant>& row = variants_of(problem, op);
    std::int64_t others = 0;
    if (given.beside_everything) {
      others = profile[at(op)] - row.front().arena_bytes;
    } else {
      for (const ValueId v : problem.reads[op]) {
        if (problem.in_arena(v)) others += problem.values[v].bytes;
      }
      if (const SlicedLoop* sliced = problem.sliced_loop(op)) others += sliced->window_bytes;
    }
    const auto bytes =
        static_cast<std::int64_t>(static_cast<double>(arena_limit - others) * given.share);
    choose_variant(problem, op, fastest_within(row, bytes));
  }
}

bool use_available_bytes(Problem& problem, std::span<const OpId> schedule,
                         std::int64_t arena_limit) {
  if (problem.graph->variants.empty()) return false;
  std::vector<std::int64_t> profile;
  evaluate(problem, schedule, &profile);
  IdVector<OpId, std::int64_t> available(problem.ops.size(), kUnlimited);
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const Op& op = problem.ops[schedule[t]];
    if (op.variants < 0) continue;
    auto& least = available[schedule[t]];
    least = std::min(least, arena_limit - (profile[t] - op.workspace));
  }
  bool changed = false;
  for (const OpId op : problem.ops.ids()) {
    if (problem.ops[op].variants < 0 || available[op] == kUnlimited) continue;
    const SlicedLoop* sliced = problem.sliced_loop(op);
    const std::int64_t windows = sliced == nullptr ? 0 : sliced->window_bytes;
    const int choice = fastest_within(variants_of(problem, op), available[op] - windows);
    if (choice >= problem.variant[op]) continue;
    choose_variant(problem, op, choice);
    changed = true;
  }
  return changed;
}

}  // namespace plimsoll::planner
