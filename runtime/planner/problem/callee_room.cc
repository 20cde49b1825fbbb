// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/problem/callee_room.h"

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

std::span<const CalleeRoom> callee_rooms(const Graph& graph) {
  static constexpr std::array<CalleeRoom, 4> kRooms = {
      CalleeRoom{true, 1}, CalleeRoom{false, 1}, CalleeRoom{false, 0.5}, CalleeRoom{false, 0}};
  constexpr std::size_t kFewOps = 3'000;
  if (graph.variants.empty()) return std::span(kRooms).first(1);
  return graph.ops.size() <= kFewOps ? std::span(kRooms) : std::span(kRooms).first(2);
}

// Example: a loop's body has three plans, of 80, 50 and 30 MB (8, 10 and 15 s); 100 MB are the
// limit, 40 MB live across the loop when nothing is evicted, 10 MB of them are its operands. Beside
// everything there are 60 MB: the plan of 50 MB. Giving it all but its operands leaves 90 MB: the
// plan of 80 MB, for which the caller must evict. Which of the two is faster in the end only
// planning both tells; hence several rooms.
void choose_callees(Problem& problem, std::span<const std::int64_t> profile,
                    std::int64_t arena_limit, const CalleeRoom& room) {
  for (const OpId op : problem.ops.ids()) {
    if (problem.ops[op].variants < 0) continue;
    const std::vector<Variant>& row = variants_of(problem, op);
    std::int64_t others = 0;
    if (room.beside_everything) {
      others = profile[at(op)] - row.front().arena_bytes;
    } else {
      for (const ValueId v : problem.reads[op]) {
        if (problem.in_arena(v)) others += problem.values[v].bytes;
      }
      if (const SlicedLoop* sliced = problem.sliced_loop(op)) others += sliced->window_bytes;
    }
    const auto given =
        static_cast<std::int64_t>(static_cast<double>(arena_limit - others) * room.share);
    choose_variant(problem, op, fastest_within(row, given));
  }
}

bool use_room(Problem& problem, std::span<const OpId> schedule, std::int64_t arena_limit) {
  if (problem.graph->variants.empty()) return false;
  std::vector<std::int64_t> profile;
  evaluate(problem, schedule, &profile);
  IdVector<OpId, std::int64_t> room(problem.ops.size(), kUnlimited);
  for (std::size_t t = 0; t < schedule.size(); ++t) {
    const Op& op = problem.ops[schedule[t]];
    if (op.variants < 0) continue;
    auto& least = room[schedule[t]];
    least = std::min(least, arena_limit - (profile[t] - op.workspace));
  }
  bool changed = false;
  for (const OpId op : problem.ops.ids()) {
    if (problem.ops[op].variants < 0 || room[op] == kUnlimited) continue;
    const SlicedLoop* sliced = problem.sliced_loop(op);
    const std::int64_t windows = sliced == nullptr ? 0 : sliced->window_bytes;
    const int choice = fastest_within(variants_of(problem, op), room[op] - windows);
    if (choice >= problem.variant[op]) continue;
    choose_variant(problem, op, choice);
    changed = true;
  }
  return changed;
}

}  // namespace plimsoll::planner
