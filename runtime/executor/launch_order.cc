// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/launch_order.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/executor/step_accesses.h"

namespace plimsoll::executor {
namespace {

using planner::Step;
using planner::StepId;
using planner::StepKind;

// A launch takes this many steps at most.
constexpr std::size_t kMostParts = 512;

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
      accesses_[t] = accesses_of(plan, step);
      Unit unit{{t}, may_join[t] != 0, is_barrier(step)};
      for (const Access& access : accesses_[t]) unit.bytes += access.end - access.begin;
      units_.push_back(std::move(unit));
    }
  }

  LaunchOrder run() {
    std::reverse(units_.begin(), units_.end());
    join(true);
    std::reverse(units_.begin(), units_.end());
    join(false);
    LaunchOrder order;
    for (Unit& unit : units_) {
      std::sort(unit.steps.begin(), unit.steps.end());
      order.steps.insert(order.steps.end(), unit.steps.begin(), unit.steps.end());
      order.ends.push_back(static_cast<std::int32_t>(order.steps.size()));
    }
    return order;
  }

 private:
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
  //
  // What touches what a collective does waits for it, which may go on until then
  // (collectives_beside.h): forwards such a step joins none that does not wait as long.
  void join(bool backwards) {
    std::map<std::int64_t, Space> spaces, meetings;
    int met = 0, waited_for = 0, waits = 0;  // the last collective; one waited for, and where
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
      int awaited = 0;
      if (unit.barrier) ++met;
      for (const StepId step : unit.steps) {
        if (backwards) break;
        for (const Access& access : accesses_[step]) {
          if (unit.barrier) {
            meetings[access.space].note(access, met);
          } else if (const auto space = meetings.find(access.space); space != meetings.end()) {
            awaited = std::max(awaited, space->second.before(access));
          }
        }
      }
      if (awaited > 0) earliest = std::max(earliest, awaited <= waited_for ? waits : launch);
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
      if (awaited > waited_for) {
        waited_for = awaited;
        waits = launch;
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
