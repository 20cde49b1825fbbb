// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/improve.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace plimsoll::planner {
// Keeping back. An eviction decides without seeing what later ones make unnecessary, so that a
// schedule may recompute what would have fitted after all.
//
// Example: value v, 10 bytes, is made at slot 2, read at 3, recomputed at 7 (in 4 s) and read at 8.
// If the profile leaves 10 bytes at slots 4..6, the execution at 7 goes: the copy of 2 is read at
// 8, the bytes of v are added at 4..6, and whatever the execution at 7 alone had read is read less
// often, so that its own recomputation may go, too (remove_cascade).
//
// Candidates are taken in order of their price: seconds won per byte and slot that keeping costs,
// dearest first. A candidate after which the peak is too high is put back.
KeepingBack::KeepingBack(const Problem& problem)
    : problem_(problem), editor_(problem, /*empty_slots=*/0) {}

void KeepingBack::run(Schedule& schedule, std::int64_t arena_limit, double least_seconds) {
  limit_ = arena_limit;
  least_seconds_ = least_seconds;
  // Very long schedules come from limits near the floor: there the search is cut off.
  changes_left_ = 4 * static_cast<std::int64_t>(schedule.size()) + 4'000;
  editor_.load(schedule);
  for (int pass = 0; pass < 2 && remove_all_that_fit(); ++pass) {
  }
  schedule = editor_.schedule();
}

bool KeepingBack::remove_all_that_fit() {
  std::vector<std::pair<double, std::int32_t>> order;
  for (const std::int32_t slot : editor_.again()) order.emplace_back(-price(slot), slot);
  std::sort(order.begin(), order.end());
  bool any = false;
  for (const auto& [negated, slot] : order) {
    if (changes_left_ <= 0) break;
    if (editor_.op_at(slot) >= 0 && editor_.removable(slot) && remove_if_it_fits(slot)) any = true;
  }
  return any;
}

// Seconds per byte and slot that keeping instead would cost.
double KeepingBack::price(std::int32_t slot) const {
  const OpId op = editor_.op_at(slot);
  double area = 1;
  for (const ValueId v : problem_.outputs[op]) {
    if (v < 0 || !editor_.tracked(v)) continue;
    area +=
        static_cast<double>(problem_.values[v].bytes) * (slot - editor_.last_touch_before(v, slot));
  }
  return problem_.ops[op].seconds / area;
}

bool KeepingBack::remove_if_it_fits(std::int32_t slot) {
  std::int32_t from = slot, to = slot;
  editor_.remove_cascade(slot, from, to);
  changes_left_ -= static_cast<std::int64_t>(editor_.mark());
  const bool stays = editor_.profile().max() <= limit_ && slow_enough();
  if (stays) {
    editor_.forget();
  } else {
    editor_.undo(0);
  }
  return stays;
}

// The editor's running sum serves unless it is too near to tell.
bool KeepingBack::slow_enough() const {
  const double seconds = editor_.seconds();
  if (std::abs(seconds - least_seconds_) >= 1e-9 * seconds) return seconds >= least_seconds_;
  return total_seconds(problem_, editor_.schedule()) >= least_seconds_;
}

void drop_unread(const Problem& problem, Schedule& schedule) {
  IdVector<ValueId, char> wanted(problem.values.size(), 0);
  IdVector<OpId, std::int32_t> left(problem.ops.size(), 0);
  for (const OpId op : schedule) ++left[op];
  for (const ValueId v : wanted.ids()) wanted[v] = problem.values[v].live_out;
  for (std::size_t t = schedule.size(); t-- > 0;) {
    const OpId op = schedule[t];
    bool needed = false;
    for (const ValueId v : problem.outputs[op]) needed = needed || (v >= 0 && wanted[v]);
    // The last execution left stays: it may have results with a fixed home or an effect.
    if (!needed && left[op] > 1) {
      --left[op];
      schedule[t] = OpId();
      continue;
    }
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0) wanted[v] = 0;
    }
    for (const ValueId v : problem.reads[op]) wanted[v] = 1;
  }
  std::erase(schedule, OpId());
}

}  // namespace plimsoll::planner
