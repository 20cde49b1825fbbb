// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/launch_order.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll::executor {
namespace {

using planner::Buffer;
using planner::BufferId;
using planner::Placement;
using planner::Step;
using planner::StepId;
using planner::StepKind;

// A launch takes this many steps at most.
constexpr std::size_t kMostParts = 512;

// Bytes that a step reads or writes. Memory of one space is apart from that of all others.
struct Access {
  std::int64_t space = 0;
  std::int64_t begin = 0, end = 0;
  bool writes = false;
};

// The last launch that read, and the last that wrote, each byte of a space.
class Space {
 public:
  // The last launch that must be over before `access` may begin; -1: none.
  int before(const Access& access) const {
    int last = -1;
    auto it = pieces_.upper_bound(access.begin);
    if (it != pieces_.begin()) --it;
    for (; it != pieces_.end() && it->first < access.end; ++it) {
      if (it->second.end <= access.begin) continue;
      last = std::max(last, it->second.write);
      if (access.writes) last = std::max(last, it->second.read);
    }
    return last;
  }

  void note(const Access& access, int launch) {
    split(access.begin);
    split(access.end);
    auto it = pieces_.lower_bound(access.begin);
    if (access.writes) {
      // Whoever touched it before is in an earlier launch.
      while (it != pieces_.end() && it->first < access.end) it = pieces_.erase(it);
      pieces_.emplace_hint(it, access.begin, Piece{access.end, launch, -1});
      return;
    }
    std::int64_t at = access.begin;
    while (at < access.end) {
      if (it == pieces_.end() || it->first > at) {
        const std::int64_t end = it == pieces_.end() ? access.end : std::min(access.end, it->first);
        pieces_.emplace_hint(it, at, Piece{end, -1, launch});
        at = end;
        continue;
      }
      it->second.read = std::max(it->second.read, launch);
      at = it->second.end;
      ++it;
    }
  }

 private:
  struct Piece {
    std::int64_t end = 0;
    int write = -1, read = -1;
  };
  void split(std::int64_t at) {
    auto it = pieces_.lower_bound(at);
    if (it == pieces_.begin()) return;
    --it;
    if (it->second.end <= at) return;
    Piece rest = it->second;
    it->second.end = at;
    pieces_.emplace(at, rest);
  }

  std::map<std::int64_t, Piece> pieces_;  // by where they begin
};

// What keeps its place among all others, whatever it touches.
bool is_barrier(const Step& step) {
  if (step.kind == StepKind::collective_start || step.kind == StepKind::collective_done)
    return true;
  if (step.kind != StepKind::compute && step.kind != StepKind::recompute) return false;
  if (step.instruction == nullptr) return false;
  const ir::OpClass op_class = ir::op_info(step.instruction->opcode()).op_class;
  return op_class == ir::OpClass::collective || op_class == ir::OpClass::async;
}

// Steps that run together, as they are known so far.
struct Unit {
  std::vector<StepId> steps;
  bool joins = false, barrier = false;
  std::int64_t bytes = 0;  // that they touch
};

class Orderer {
 public:
  Orderer(const planner::Plan& plan, const IdVector<StepId, char>& may_join,
          std::int64_t near_bytes)
      : plan_(plan), near_bytes_(near_bytes) {
    accesses_.resize(plan.steps.size());
    for (const StepId t : plan.steps.ids()) {
      const Step& step = plan.steps[t];
      if (step.kind == StepKind::free) continue;
      add_accesses(step, accesses_[t]);
      Unit unit{{t}, may_join[t] != 0, is_barrier(step)};
      for (const Access& access : accesses_[t]) unit.bytes += access.end - access.begin;
      units_.push_back(std::move(unit));
    }
  }

  LaunchOrder run() {
    std::reverse(units_.begin(), units_.end());
    join();
    std::reverse(units_.begin(), units_.end());
    join();
    LaunchOrder order;
    for (Unit& unit : units_) {
      std::sort(unit.steps.begin(), unit.steps.end());
      order.steps.insert(order.steps.end(), unit.steps.begin(), unit.steps.end());
      order.ends.push_back(static_cast<std::int32_t>(order.steps.size()));
    }
    return order;
  }

 private:
  void add_accesses(const Step& step, std::vector<Access>& to) const {
    // A wait ends what its start began.
    const Step& moved = step.kind == StepKind::swap_wait ? plan_.steps[step.transfer] : step;
    for (const BufferId id : moved.inputs) add_access(id, false, to);
    for (const BufferId id : moved.outputs) add_access(id, true, to);
    add_access(moved.workspace, true, to);
    for (const planner::SlicedState& state : moved.sliced) add_access(state.window, true, to);
  }

  void add_access(BufferId id, bool writes, std::vector<Access>& to) const {
    if (id < 0) return;
    const Buffer& buffer = plan_.buffers[id];
    if (buffer.bytes == 0) return;
    switch (buffer.placement) {
      case Placement::arena:
        to.push_back({0, buffer.offset, buffer.offset + buffer.bytes, writes});
        break;
      case Placement::parameter:
        to.push_back({1 + 2 * std::int64_t{buffer.index}, 0, buffer.bytes, writes});
        break;
      case Placement::output:
        to.push_back({2 + 2 * std::int64_t{buffer.index}, 0, buffer.bytes, writes});
        break;
      case Placement::constant:  // nobody writes it
      default:                   // only transfers touch a tier, and they keep their order
        break;
    }
  }

  // Goes over the units in their order and puts each that joins others into the earliest launch
  // that comes after all that it must come after and is not too far away. The same serves
  // backwards: what must be apart, and in order, is the same seen from the end.
  //
  // Example: steps a, B, c, d, where a, c and d are small and B is large; c reads what a wrote, d
  // reads nothing of theirs. Forwards: d may go into a's launch, unless B's bytes are too many to
  // pass: then what d shares with its neighbours would have left the cache. c must come after a.
  // Steps that update parameters wait for one another only by what they read, so that late ones
  // gather first (the pass backwards), then early ones.
  //
  // What a step must come after is found by addresses, not by values: two values that the plan put
  // at one place are as dependent as a value and its reader. A Space holds, per range of bytes, the
  // last launch that wrote it and the last that read it.
  void join() {
    std::map<std::int64_t, Space> spaces;
    std::vector<Unit> launches;
    std::vector<int> open;             // launches that others may join, ascending
    std::vector<std::int64_t> passed;  // per launch, bytes of those up to it when it was new
    int first = 0;                     // behind the last barrier
    for (Unit& unit : units_) {
      int earliest = first;
      for (const StepId step : unit.steps) {
        for (const Access& access : accesses_[step]) {
          const auto space = spaces.find(access.space);
          if (space == spaces.end()) continue;
          earliest = std::max(earliest, space->second.before(access) + 1);
        }
      }
      int launch = static_cast<int>(launches.size());
      if (unit.joins) {
        const auto near = std::lower_bound(passed.begin(), passed.end(),
                                           (passed.empty() ? 0 : passed.back()) - near_bytes_);
        earliest = std::max(earliest, static_cast<int>(near - passed.begin()));
        auto it = std::lower_bound(open.begin(), open.end(), earliest);
        while (it != open.end() &&
               launches[at(*it)].steps.size() + unit.steps.size() > kMostParts) {
          ++it;
        }
        if (it != open.end()) launch = *it;
      }
      for (const StepId step : unit.steps) {
        for (const Access& access : accesses_[step]) {
          spaces[access.space].note(access, launch);
        }
      }
      if (launch == static_cast<int>(launches.size())) {
        if (unit.joins) open.push_back(launch);
        if (unit.barrier) first = launch + 1;
        passed.push_back((passed.empty() ? 0 : passed.back()) + unit.bytes);
        launches.push_back(std::move(unit));
        continue;
      }
      Unit& joined = launches[at(launch)];
      joined.bytes += unit.bytes;
      joined.steps.insert(joined.steps.end(), unit.steps.begin(), unit.steps.end());
      if (joined.steps.size() >= kMostParts)
        open.erase(std::find(open.begin(), open.end(), launch));
    }
    units_ = std::move(launches);
  }

  const planner::Plan& plan_;
  const std::int64_t near_bytes_;
  IdVector<StepId, std::vector<Access>> accesses_;
  std::vector<Unit> units_;
};

}  // namespace

LaunchOrder order_launches(const planner::Plan& plan, const IdVector<StepId, char>& may_join,
                           std::int64_t near_bytes) {
  return Orderer(plan, may_join, near_bytes).run();
}

}  // namespace plimsoll::executor
