// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/lend_results.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/base/index.h"
#include "runtime/base/max_tree.h"
#include "runtime/planner/plan_summary.h"

// Example, of an update w' = w - g with w kept by the caller: g (16 MB) is the last thing that the
// step computes before w', and dies there. Without lending the arena holds g beside the empty
// buffer of w'. Here g is computed into that buffer, and w' over it. Before g is made, the buffer
// is empty still: an activation of at most 16 MB that is dead by then may lie in it.
//
// What to lend to is chosen greedily: at the step where the arena is fullest, the largest buffer
// that fits into a result's (the one with the least room to spare), until none fits. A result's
// buffer takes several values side by side.

namespace plimsoll::planner {
namespace {

// Buffers looked at in all: the search ends there in plans of very many results and values.
constexpr std::int64_t kMostLooks = 40'000'000;

class Lender {
 public:
  explicit Lender(Plan& plan) : plan_(plan) {}

  void run(std::span<const TakenOver> taken_over) {
    take_over(taken_over);
    list_rooms();
    if (rooms_.empty()) return;
    measure();
    while (lend_at(StepId(load_.argmax()))) {
    }
  }

 private:
  struct Room {
    BufferId result;
    std::int64_t bytes = 0;
    StepId until;                // the step that makes the result
    std::vector<BufferId> lent;  // by offset
  };

  Buffer& buffer(BufferId id) { return plan_.buffers[id]; }

  static bool is_room(const Buffer& b) {
    return b.placement == Placement::output && !b.host && !b.pinned;
  }

  // The values become the results' buffers, and their own go.
  void take_over(std::span<const TakenOver> taken_over) {
    IdVector<BufferId, BufferId> becomes(plan_.buffers.size(), BufferId());
    bool any = false;
    for (const TakenOver& t : taken_over) {
      const Buffer& value = buffer(t.value);
      Buffer& result = buffer(t.result);
      if (value.placement != Placement::arena || value.pinned || value.last_step != t.step ||
          value.bytes != result.bytes || !is_room(result) || result.first_step != t.step) {
        continue;
      }
      result.first_step = value.first_step;
      result.source = value.source;
      result.leaf = value.leaf;
      becomes[t.value] = t.result;
      any = true;
    }
    if (any) renumber(becomes);
  }

  void renumber(const IdVector<BufferId, BufferId>& becomes) {
    IdVector<BufferId, BufferId> number(plan_.buffers.size(), BufferId());
    IdVector<BufferId, Buffer> kept;
    for (const BufferId id : plan_.buffers.ids()) {
      if (becomes[id] < 0) number[id] = kept.push_back(buffer(id));
    }
    for (const BufferId id : plan_.buffers.ids()) {
      if (becomes[id] >= 0) number[id] = number[becomes[id]];
    }
    plan_.buffers = std::move(kept);
    const auto change = [&](BufferId& id) {
      if (id >= 0) id = number[id];
    };
    for (Step& step : plan_.steps) {
      for (BufferId& id : step.inputs) change(id);
      for (BufferId& id : step.outputs) change(id);
      change(step.workspace);
      for (const MemorySpace tier : kTiers) change(step.tier_workspaces[tier]);
      for (SlicedState& state : step.sliced) change(state.window);
    }
    for (BufferId& id : plan_.results) change(id);
  }

  void list_rooms() {
    for (const BufferId id : plan_.buffers.ids()) {
      const Buffer& b = buffer(id);
      if (!is_room(b) || b.bytes == 0 || b.first_step <= StepId(0)) continue;
      rooms_.push_back({id, b.bytes, b.first_step, {}});
    }
    std::stable_sort(rooms_.begin(), rooms_.end(),
                     [](const Room& a, const Room& b) { return a.bytes < b.bytes; });
  }

  void measure() {
    load_.build(arena_load(plan_));
    for (const BufferId id : plan_.buffers.ids()) {
      const Buffer& b = buffer(id);
      if (b.placement == Placement::arena && b.bytes > 0 && !b.pinned) movable_.push_back(id);
    }
    // The largest first, and of those the ones that live longest.
    std::stable_sort(movable_.begin(), movable_.end(), [&](BufferId p, BufferId q) {
      const Buffer &a = buffer(p), &b = buffer(q);
      if (a.bytes != b.bytes) return a.bytes > b.bytes;
      return a.last_step - a.first_step > b.last_step - b.first_step;
    });
  }

  // Lends a place to one of the values that live at `step`; false where none fits.
  bool lend_at(StepId step) {
    for (const BufferId id : movable_) {
      if (--looks_ < 0) return false;
      const Buffer& b = buffer(id);
      if (b.placement != Placement::arena || b.first_step > step || b.last_step < step) continue;
      if (lend(id)) return true;
    }
    return false;
  }

  bool lend(BufferId id) {
    Buffer& b = buffer(id);
    auto room = std::lower_bound(rooms_.begin(), rooms_.end(), b.bytes,
                                 [](const Room& r, std::int64_t bytes) { return r.bytes < bytes; });
    for (; room != rooms_.end(); ++room) {
      if (--looks_ < 0) return false;
      if (b.last_step >= room->until) continue;
      const std::int64_t offset = place_in(*room, b);
      if (offset < 0) continue;
      b.placement = Placement::lent;
      b.index = buffer(room->result).index;
      b.offset = offset;
      const auto behind = std::find_if(room->lent.begin(), room->lent.end(), [&](BufferId other) {
        return buffer(other).offset > offset;
      });
      room->lent.insert(behind, id);
      load_.change(b.first_step.value(), b.last_step.value(), -b.bytes);
      return true;
    }
    return false;
  }

  // The lowest offset at which nothing lies that lives at the same time; -1: there is none.
  std::int64_t place_in(const Room& room, const Buffer& b) {
    std::int64_t free = 0;
    for (const BufferId other : room.lent) {
      --looks_;
      const Buffer& there = buffer(other);
      if (there.last_step < b.first_step || b.last_step < there.first_step) continue;
      if (there.offset >= free + b.bytes) break;
      free = std::max(free, there.offset + there.bytes);
    }
    return free + b.bytes <= room.bytes ? free : -1;
  }

  Plan& plan_;
  std::vector<Room> rooms_;        // the smallest first
  std::vector<BufferId> movable_;  // of the arena
  MaxTree<Adding> load_;           // of the arena, per step
  std::int64_t looks_ = kMostLooks;
};

}  // namespace

void lend_results(Plan& plan, std::span<const TakenOver> taken_over) {
  if (plan.steps.empty()) return;
  Lender(plan).run(taken_over);
}

// A callee's results may be what it reads.
bool may_lend_results(const Problem& problem) {
  constexpr std::int64_t kTrifle = 1024;
  if (problem.graph->role != Role::entry || problem.output_bytes == 0) return false;
  std::int64_t computed = 0;
  for (const Value& value : problem.values) {
    if (value.home == Home::arena) computed += value.bytes;
  }
  return problem.output_bytes >= computed / kTrifle;
}

IdVector<OpId, std::int64_t> lent_at_most(const Problem& problem) {
  if (!may_lend_results(problem)) return {};
  std::vector<char> made(problem.results.size(), 0);
  std::int64_t left = problem.output_bytes;
  IdVector<OpId, std::int64_t> lent;
  for (const OpId op : problem.ops.ids()) {
    for (const ValueId v : problem.outputs[op]) {
      if (v < 0 || problem.values[v].home != Home::output) continue;
      const auto index = at(problem.values[v].index);
      if (problem.graph->is_on_host(index) || std::exchange(made[index], 1)) continue;
      left -= problem.values[v].bytes;
    }
    lent.push_back(left);
  }
  return lent;
}

}  // namespace plimsoll::planner
