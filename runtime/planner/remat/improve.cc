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
// dearest first. A candidate after which the peak is too high is put back. Near the floor that
// happens to most, and taking out and putting back what an execution alone had read is dear, so
// that a look at the profile goes first. In the example, say, the execution at 7 reads u,
// recomputed at 6 for it alone from w, which is read at 5 before: whatever happens, no byte is
// freed before 5. A profile less than 10 bytes below the limit at slot 4 decides it.
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

// The first slot at which taking an execution out may free a byte, counting whatever may go along;
// 0 where that is not known.
std::int32_t KeepingBack::first_freed(std::int32_t slot) {
  constexpr std::size_t kMostLooks = 64;
  std::int32_t first = slot;
  gone_.assign(1, slot);
  for (std::size_t k = 0; k < gone_.size(); ++k) {
    if (gone_.size() > kMostLooks) return 0;
    const std::int32_t here = gone_[k];
    const OpId op = editor_.op_at(here);
    first = std::min(first, here);
    for (const ValueId v : problem_.outputs[op]) {
      if (v >= 0 && editor_.tracked(v) && !editor_.views(v).empty()) return 0;
    }
    for (const ValueId v : problem_.reads[op]) {
      if (!editor_.tracked(v)) continue;
      const ScheduleEditor::Copy copy = editor_.copy_before(v, here);
      if (copy.last > slot) continue;  // is read by somebody who stays
      if (!editor_.is_again(copy.made)) {
        first = std::min(first, editor_.last_touch_before(v, here));
      } else if (std::find(gone_.begin(), gone_.end(), copy.made) == gone_.end()) {
        gone_.push_back(copy.made);
      }
    }
  }
  return first;
}

// A result is kept from its last touch before the slot on; before the first byte is freed the
// profile is what it was, and more by that.
bool KeepingBack::is_surely_too_high(std::int32_t slot) {
  const std::int32_t freed = first_freed(slot);
  for (const ValueId v : problem_.outputs[editor_.op_at(slot)]) {
    if (v < 0 || !editor_.tracked(v) || editor_.copy_before(v, slot + 1).last <= slot) continue;
    const std::int32_t touched = editor_.last_touch_before(v, slot);
    if (touched + 1 >= freed) continue;
    const std::int64_t bytes = problem_.values[v].bytes;
    if (editor_.profile().max(touched + 1, freed - 1) + bytes > limit_) return true;
  }
  return false;
}

bool KeepingBack::remove_if_it_fits(std::int32_t slot) {
  if (is_surely_too_high(slot)) {
    --changes_left_;
    return false;
  }
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
