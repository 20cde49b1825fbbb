// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/max_tree.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// A schedule in which executions can be put and taken out again in logarithmic time, with its exact
// profile of arena bytes. Executions stand in slots, some of which are empty; the last slot is the
// end, where what lives out is read. Every change is logged and can be undone.
class ScheduleEditor {
 public:
  // `empty_slots` are left before each execution, so that most insertions move nothing.
  explicit ScheduleEditor(const Problem& problem, std::int32_t empty_slots = 3);

  // `schedule` must be valid. `extra_slots` empty slots are left before its execution number `at`,
  // besides the usual ones.
  void load(std::span<const OpId> schedule, std::size_t at = 0, std::int32_t extra_slots = 0);
  // How many executions stand before the slot.
  std::size_t executions_before(std::int32_t slot) const;
  Schedule schedule() const;
  double seconds() const { return seconds_; }

  std::int32_t slot_count() const { return static_cast<std::int32_t>(op_at_.size()); }
  std::int32_t end_slot() const { return slot_count() - 1; }
  OpId op_at(std::int32_t slot) const { return op_at_[at(slot)]; }
  std::int32_t first_slot(OpId op) const { return first_slot_[op]; }
  // Of the op's first execution, the end if there is no such op.
  std::int32_t end_of(OpId op) const {
    return op < first_slot_.end_id() ? first_slot(op) : end_slot();
  }
  // The last op whose first execution is at or before the slot; -1: none.
  OpId stage(std::int32_t slot) const { return stage_[at(slot)]; }
  bool is_again(std::int32_t slot) const {
    return op_at(slot) >= 0 && first_slot(op_at(slot)) != slot;
  }
  // Executions that are not their op's first, in no particular order.
  const std::vector<std::int32_t>& again() const { return again_; }
  const MaxTree<Adding>& profile() const { return tree_; }

  // Values whose bytes or views matter; others are there for good once they are made.
  bool tracked(ValueId v) const { return tracked_[v] != 0; }
  std::span<const ValueId> views(ValueId v) const {
    return views_.size() == 0 ? std::span<const ValueId>() : views_[v];
  }

  // A copy of a tracked value: where it is made, its last read (or where it is made), and where it
  // is made next (slot_count(): never).
  struct Copy {
    std::int32_t made, last, next_made;
  };
  // The copy that a read at `slot` is served by; made < slot, or -1: none.
  Copy copy_before(ValueId v, std::int32_t slot) const;
  // The first read at or after `slot`; slot_count(): none.
  std::int32_t next_read(ValueId v, std::int32_t slot) const;
  // The last read or making before `slot` and at or after the copy's making.
  std::int32_t last_touch_before(ValueId v, std::int32_t slot) const;
  // Whether the view `v` that was made last before `slot` is one of the copy that is there then.
  bool view_is_current(ValueId v, std::int32_t slot) const;

  // `slot` is empty and every read finds its value made before.
  void insert(std::int32_t slot, OpId op);
  // `slot` holds an execution that is not its op's first.
  void remove(std::int32_t slot);
  // Takes an execution out that is not its op's first, those that only it needed, and views made
  // again of its results. Widens the slots `from` .. `to` to those where bytes may be added.
  void remove_cascade(std::int32_t slot, std::int32_t& from, std::int32_t& to);
  // Moves an op's first execution to an empty slot. What it reads is made before, and what reads
  // its results comes after.
  void move_first(OpId op, std::int32_t slot);
  // Reads of what the execution makes can be served by earlier copies.
  bool removable(std::int32_t slot) const;
  // Nobody reads what the execution makes.
  bool unread(std::int32_t slot) const;

  std::size_t mark() const { return log_.size(); }
  void undo(std::size_t mark);
  void forget() { log_.clear(); }

  // Empty slots right before `slot`.
  std::int32_t free_slots_before(std::int32_t slot) const;

 private:
  struct Change {
    OpId op;
    std::int32_t slot;
    bool inserted;
    std::int32_t moved_from = -1;  // of a first execution
  };

  void put(std::int32_t slot, OpId op);
  void take(std::int32_t slot);
  void enter(std::int32_t slot, OpId op);
  void leave(std::int32_t slot, OpId op);
  void shift_first(OpId op, std::int32_t slot);
  void add_read(ValueId v, std::int32_t slot);
  void remove_read(ValueId v, std::int32_t slot);
  void add_make(ValueId v, std::int32_t slot);
  void remove_make(ValueId v, std::int32_t slot);
  std::int64_t in_place_bytes(std::int32_t slot);
  void refresh_in_place();
  void touch(std::int32_t slot) {
    if (reuses_) touched_.push_back(slot);
  }
  std::int64_t bytes(ValueId v) const { return problem_.values[v].bytes; }

  const Problem& problem_;
  const std::int32_t empty_slots_;
  IdVector<ValueId, char> tracked_;
  Rows<ValueId, ValueId> views_;
  bool reuses_ = false;

  std::vector<OpId> op_at_;
  IdVector<OpId, std::int32_t> first_slot_;
  std::vector<OpId> stage_;
  IdVector<ValueId, std::vector<std::int32_t>> makes_, reads_;  // per value, slots, rising
  std::vector<std::int64_t> saved_;                             // per slot, bytes saved in place
  MaxTree<Adding> tree_;
  double seconds_ = 0;
  std::vector<std::int32_t> again_, place_in_again_;
  std::vector<Change> log_;
  std::vector<std::int32_t> touched_;
  std::vector<char> dies_;
  std::vector<Reuse> taken_;
};

}  // namespace plimsoll::planner
