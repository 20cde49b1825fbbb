// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/schedule_editor.h"

#include <algorithm>

#include "runtime/base/max_tree.h"

// A schedule under change, with its exact profile.
//
// Executions stand in slots, with some empty ones between them, so that most insertions move
// nothing. Per tracked value two rising lists of slots are kept: where it is made and where it is
// read. A *copy* begins at a making and lives to the last read before the next making; a making
// that nobody reads lives at its own slot only. Every change of a list changes at most one or two
// copies, each a range of the profile.
//
// Example: slots 0..20; v has 8 bytes, made at 3, read at 6 and 15. One copy, 3..15. Inserting
// another execution of v's producer at 13 (add_make) cuts it in two: the last touch before 13 is
// the read at 6, so the bytes go from 7..12, and the second copy is 13..15. Two things follow: at 6
// v now dies, so the op there may write its result over it (touch(6): `saved_` is worked out anew),
// and the producer's own operands are read at 13, which may lengthen their copies (add_read).
// Taking the execution out again (remove_make) is the same in reverse: the copy of 3 is read at 15
// again, and 8 bytes lie at 7..12.
//
// What must hold between changes: every read finds a making before it; `profile()` is what
// evaluate() (problem/schedule.h) says of schedule(), slot by slot; `seconds()` is the sum of all
// executions. Changes are logged, and undo() replays the log backwards.

namespace plimsoll::planner {

ScheduleEditor::ScheduleEditor(const Problem& problem, std::int32_t empty_slots)
    : problem_(problem), empty_slots_(empty_slots), views_(list_views(problem)) {
  tracked_.assign(problem.values.size(), 0);
  for (const ValueId v : problem.values.ids()) {
    const Value& value = problem.values[v];
    if (value.home != Home::arena || value.producer < 0) continue;
    tracked_[v] = value.bytes > 0 || !views(v).empty() ||
                  (!problem.view_of.empty() && problem.view_of[v] >= 0);
  }
  reuses_ = std::any_of(problem.reuse.begin(), problem.reuse.end(),
                        [](const auto& row) { return !row.empty(); });
  makes_.resize(problem.values.size());
  reads_.resize(problem.values.size());
}

void ScheduleEditor::load(std::span<const OpId> schedule, std::size_t position,
                          std::int32_t extra_slots) {
  op_at_.clear();
  stage_.clear();
  again_.clear();
  log_.clear();
  first_slot_.assign(problem_.ops.size(), -1);
  seconds_ = total_seconds(problem_, schedule);
  OpId stage;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const OpId op = schedule[i];
    const bool first = first_slot_[op] < 0;
    const std::int32_t slots = empty_slots_ + (i == position ? extra_slots : 0);
    op_at_.resize(op_at_.size() + at(slots));
    stage_.insert(stage_.end(), at(slots), stage);
    if (first) {
      first_slot_[op] = slot_count();
      stage = op;
    }
    op_at_.push_back(op);
    stage_.push_back(stage);
  }
  op_at_.push_back(OpId());
  stage_.push_back(stage);
  place_in_again_.assign(op_at_.size(), -1);
  for (const ValueId v : makes_.ids()) {
    makes_[v].clear();
    reads_[v].clear();
  }
  for (std::int32_t slot = 0; slot < slot_count(); ++slot) {
    const OpId op = op_at(slot);
    if (op < 0) continue;
    if (is_again(slot)) {
      place_in_again_[at(slot)] = static_cast<std::int32_t>(again_.size());
      again_.push_back(slot);
    }
    for (const ValueId v : problem_.reads[op]) {
      if (tracked(v)) reads_[v].push_back(slot);
    }
    for (const ValueId v : problem_.outputs[op]) {
      if (v >= 0 && tracked(v)) makes_[v].push_back(slot);
    }
  }
  std::vector<std::int64_t> profile(op_at_.size() + 1, 0);
  for (const ValueId v : makes_.ids()) {
    if (problem_.values[v].live_out && tracked_[v]) reads_[v].push_back(end_slot());
    if (bytes(v) == 0) continue;
    auto read = reads_[v].begin();
    for (auto made = makes_[v].begin(); made != makes_[v].end(); ++made) {
      const std::int32_t next = made + 1 == makes_[v].end() ? slot_count() : *(made + 1);
      std::int32_t last = *made;
      for (; read != reads_[v].end() && *read < next; ++read) last = std::max(last, *read);
      profile[at(*made)] += bytes(v);
      profile[at(last) + 1] -= bytes(v);
    }
  }
  for (std::size_t i = 1; i < profile.size(); ++i) profile[i] += profile[i - 1];
  profile.pop_back();
  saved_.assign(op_at_.size(), 0);
  for (std::int32_t slot = 0; slot < slot_count(); ++slot) {
    if (op_at(slot) < 0) continue;
    saved_[at(slot)] = in_place_bytes(slot);
    profile[at(slot)] += problem_.ops[op_at(slot)].workspace - saved_[at(slot)];
  }
  tree_.build(profile);
}

std::size_t ScheduleEditor::executions_before(std::int32_t slot) const {
  return at(std::count_if(op_at_.begin(), op_at_.begin() + slot, [](OpId op) { return op >= 0; }));
}

Schedule ScheduleEditor::schedule() const {
  Schedule schedule;
  schedule.reserve(problem_.ops.size() + again_.size());
  for (const OpId op : op_at_) {
    if (op >= 0) schedule.push_back(op);
  }
  return schedule;
}

ScheduleEditor::Copy ScheduleEditor::copy_before(ValueId v, std::int32_t slot) const {
  const auto& makes = makes_[v];
  const auto next = std::lower_bound(makes.begin(), makes.end(), slot);
  Copy copy{-1, -1, next == makes.end() ? slot_count() : *next};
  if (next == makes.begin()) return copy;
  copy.made = *(next - 1);
  const auto& reads = reads_[v];
  const auto after = std::lower_bound(reads.begin(), reads.end(), copy.next_made);
  copy.last = after == reads.begin() ? copy.made : std::max(copy.made, *(after - 1));
  return copy;
}

std::int32_t ScheduleEditor::next_read(ValueId v, std::int32_t slot) const {
  const auto& reads = reads_[v];
  const auto it = std::lower_bound(reads.begin(), reads.end(), slot);
  return it == reads.end() ? slot_count() : *it;
}

std::int32_t ScheduleEditor::last_touch_before(ValueId v, std::int32_t slot) const {
  const auto& makes = makes_[v];
  const auto& reads = reads_[v];
  const auto make = std::lower_bound(makes.begin(), makes.end(), slot);
  const auto read = std::lower_bound(reads.begin(), reads.end(), slot);
  return std::max(make == makes.begin() ? -1 : *(make - 1),
                  read == reads.begin() ? -1 : *(read - 1));
}

bool ScheduleEditor::view_is_current(ValueId v, std::int32_t slot) const {
  const ValueId of = problem_.view_of[v];
  const auto last_made = [&](ValueId w) {
    const auto& makes = makes_[w];
    const auto it = std::lower_bound(makes.begin(), makes.end(), slot);
    return it == makes.begin() ? -1 : *(it - 1);
  };
  // One op may make both.
  const std::int32_t own = last_made(v);
  return own >= 0 && own >= last_made(of);
}

std::int32_t ScheduleEditor::free_slots_before(std::int32_t slot) const {
  std::int32_t slots = 0;
  while (slot - slots > 0 && op_at(slot - slots - 1) < 0) ++slots;
  return slots;
}

void ScheduleEditor::add_read(ValueId v, std::int32_t slot) {
  auto& reads = reads_[v];
  const Copy copy = copy_before(v, slot);
  if (slot > copy.last) {
    tree_.change(copy.last + 1, slot, bytes(v));
    touch(copy.last);
  }
  reads.insert(std::lower_bound(reads.begin(), reads.end(), slot), slot);
}

void ScheduleEditor::remove_read(ValueId v, std::int32_t slot) {
  auto& reads = reads_[v];
  reads.erase(std::lower_bound(reads.begin(), reads.end(), slot));
  const Copy copy = copy_before(v, slot);
  if (slot > copy.last) {
    tree_.change(copy.last + 1, slot, -bytes(v));
    touch(copy.last);
  }
}

void ScheduleEditor::add_make(ValueId v, std::int32_t slot) {
  const Copy copy = copy_before(v, slot);
  if (copy.made >= 0 && copy.last > slot) {
    const std::int32_t before = last_touch_before(v, slot);
    tree_.change(before + 1, slot - 1, -bytes(v));
    touch(before);
  } else {
    tree_.change(slot, slot, bytes(v));
  }
  auto& makes = makes_[v];
  makes.insert(std::lower_bound(makes.begin(), makes.end(), slot), slot);
}

void ScheduleEditor::remove_make(ValueId v, std::int32_t slot) {
  auto& makes = makes_[v];
  makes.erase(std::lower_bound(makes.begin(), makes.end(), slot));
  const Copy copy = copy_before(v, slot);
  if (copy.made >= 0 && copy.last > slot) {
    const std::int32_t before = last_touch_before(v, slot);
    tree_.change(before + 1, slot - 1, bytes(v));
    touch(before);
  } else {
    tree_.change(slot, slot, -bytes(v));
  }
}

// Which outputs an op may write over which dying inputs depends on who else reads them later, so a
// change elsewhere may change it. Only slots where a copy now ends, or ended before, can be
// concerned: these are collected in `touched_` while lists change and looked at once at the end.
std::int64_t ScheduleEditor::in_place_bytes(std::int32_t slot) {
  const OpId op = op_at(slot);
  if (!reuses_ || op < 0 || problem_.reuse[op].empty()) return 0;
  const auto reads = problem_.reads[op];
  dies_.assign(reads.size(), 0);
  for (std::size_t k = 0; k < reads.size(); ++k) {
    if (tracked(reads[k])) dies_[k] = copy_before(reads[k], slot).last == slot;
  }
  match_in_place(problem_, op, dies_, taken_);
  std::int64_t sum = 0;
  for (const Reuse& r : taken_) sum += bytes(r.output);
  return sum;
}

void ScheduleEditor::refresh_in_place() {
  for (const std::int32_t slot : touched_) {
    const std::int64_t now = in_place_bytes(slot);
    tree_.change(slot, slot, saved_[at(slot)] - now);
    saved_[at(slot)] = now;
  }
  touched_.clear();
}

void ScheduleEditor::enter(std::int32_t slot, OpId op) {
  op_at_[at(slot)] = op;
  for (const ValueId v : problem_.reads[op]) {
    if (tracked(v)) add_read(v, slot);
  }
  for (const ValueId v : problem_.outputs[op]) {
    if (v >= 0 && tracked(v)) add_make(v, slot);
  }
  tree_.change(slot, slot, problem_.ops[op].workspace);
  touch(slot);
  refresh_in_place();
}

void ScheduleEditor::leave(std::int32_t slot, OpId op) {
  op_at_[at(slot)] = OpId();
  for (const ValueId v : problem_.outputs[op]) {
    if (v >= 0 && tracked(v)) remove_make(v, slot);
  }
  for (const ValueId v : problem_.reads[op]) {
    if (tracked(v)) remove_read(v, slot);
  }
  tree_.change(slot, slot, -problem_.ops[op].workspace);
  touch(slot);
  refresh_in_place();
}

void ScheduleEditor::put(std::int32_t slot, OpId op) {
  place_in_again_[at(slot)] = static_cast<std::int32_t>(again_.size());
  again_.push_back(slot);
  seconds_ += problem_.ops[op].seconds;
  enter(slot, op);
}

void ScheduleEditor::take(std::int32_t slot) {
  const OpId op = op_at(slot);
  const std::int32_t place = place_in_again_[at(slot)];
  again_[at(place)] = again_.back();
  place_in_again_[at(again_[at(place)])] = place;
  again_.pop_back();
  place_in_again_[at(slot)] = -1;
  seconds_ -= problem_.ops[op].seconds;
  leave(slot, op);
}

// In the order in which no read is ever without a making before it.
//
// A first execution may move as long as its operands are made before and its results read after.
// Moving earlier, the results are made at the new slot before the old makings go; moving later, the
// reads move first. Between two steps the profile may count both copies; it is right again at the
// end.
void ScheduleEditor::shift_first(OpId op, std::int32_t slot) {
  const std::int32_t from = first_slot(op);
  for (const ValueId v : problem_.outputs[op]) {
    if (v >= 0 && tracked(v) && slot < from) add_make(v, slot);
  }
  for (const ValueId v : problem_.reads[op]) {
    if (!tracked(v)) continue;
    remove_read(v, from);
    add_read(v, slot);
  }
  for (const ValueId v : problem_.outputs[op]) {
    if (v < 0 || !tracked(v)) continue;
    if (slot > from) add_make(v, slot);
    remove_make(v, from);
  }
  tree_.change(from, from, saved_[at(from)] - problem_.ops[op].workspace);
  saved_[at(from)] = 0;
  op_at_[at(from)] = OpId();
  op_at_[at(slot)] = op;
  first_slot_[op] = slot;
  tree_.change(slot, slot, problem_.ops[op].workspace);
  touch(slot);
  refresh_in_place();
}

void ScheduleEditor::move_first(OpId op, std::int32_t slot) {
  log_.push_back({op, slot, false, first_slot(op)});
  shift_first(op, slot);
}

void ScheduleEditor::insert(std::int32_t slot, OpId op) {
  log_.push_back({op, slot, true});
  put(slot, op);
}

void ScheduleEditor::remove(std::int32_t slot) {
  log_.push_back({op_at(slot), slot, false});
  take(slot);
}

void ScheduleEditor::remove_cascade(std::int32_t slot, std::int32_t& from, std::int32_t& to) {
  const OpId op = op_at(slot);
  from = std::min(from, slot);
  to = std::max(to, slot);
  for (const ValueId v : problem_.outputs[op]) {
    if (v >= 0 && tracked(v)) from = std::min(from, copy_before(v, slot).last);
  }
  remove(slot);
  for (const ValueId v : problem_.reads[op]) {
    if (!tracked(v)) continue;
    const std::int32_t made = copy_before(v, slot).made;
    if (is_again(made) && unread(made)) remove_cascade(made, from, to);
  }
  for (const ValueId v : problem_.outputs[op]) {
    if (v < 0 || !tracked(v)) continue;
    for (const ValueId view : views(v)) {
      const std::int32_t made = copy_before(view, slot).next_made;
      if (made < copy_before(v, slot).next_made && is_again(made) && removable(made)) {
        remove_cascade(made, from, to);
      }
    }
  }
}

void ScheduleEditor::undo(std::size_t mark) {
  while (log_.size() > mark) {
    const Change change = log_.back();
    log_.pop_back();
    if (change.moved_from >= 0) {
      shift_first(change.op, change.moved_from);
    } else if (change.inserted) {
      take(change.slot);
    } else {
      put(change.slot, change.op);
    }
  }
}

bool ScheduleEditor::removable(std::int32_t slot) const {
  if (!is_again(slot)) return false;
  for (const ValueId v : problem_.outputs[op_at(slot)]) {
    if (v < 0 || !tracked(v) || problem_.view_of.empty() || problem_.view_of[v] < 0) continue;
    const Copy own = copy_before(v, slot + 1);
    if (own.last > slot && !view_is_current(v, slot)) return false;
  }
  return true;
}

bool ScheduleEditor::unread(std::int32_t slot) const {
  for (const ValueId v : problem_.outputs[op_at(slot)]) {
    if (v >= 0 && tracked(v) && copy_before(v, slot + 1).last > slot) return false;
  }
  return true;
}

}  // namespace plimsoll::planner
