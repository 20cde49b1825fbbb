// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/collectives_beside.h"

#include <algorithm>
#include <map>

#include "runtime/base/index.h"
#include "runtime/executor/step_accesses.h"
#include "runtime/ir/participants.h"

namespace plimsoll::executor {
namespace {

using planner::StepId;

struct Launch {
  std::vector<Access> accesses;
  std::int64_t bytes = 0;
};

// Per launch the last one that goes on and must be over before; -1: none. What goes on is done in
// order, so that one needs not wait for another.
std::vector<int> waits_of(const std::vector<Launch>& launches, const std::vector<char>& goes_on) {
  std::map<std::int64_t, Space> spaces;
  std::vector<int> waits(launches.size(), -1);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    for (const Access& access : launches[i].accesses) {
      if (goes_on[i] != 0) {
        spaces[access.space].note(access, static_cast<int>(i));
      } else if (const auto space = spaces.find(access.space); space != spaces.end()) {
        waits[i] = std::max(waits[i], space->second.before(access));
      }
    }
  }
  return waits;
}

}  // namespace

CollectivesBeside find_collectives_beside(const planner::Plan& plan, const LaunchOrder& order,
                                          std::int64_t least_bytes) {
  const std::size_t count = order.ends.size();
  CollectivesBeside made;
  made.goes_on.assign(count, 0);
  made.meets.assign(count, 0);
  made.waits.assign(count, 0);
  if (plan.steps.empty()) return made;
  std::vector<Launch> launches(count);
  bool any = false;
  for (std::size_t i = 0, begin = 0; i < count; begin = at(order.ends[i++])) {
    for (std::size_t s = begin; s < at(order.ends[i]); ++s) {
      const planner::Step& step = plan.steps[order.steps[s]];
      for (const Access& access : accesses_of(plan, step)) {
        launches[i].accesses.push_back(access);
        launches[i].bytes += access.end - access.begin;
      }
      if (step.instruction == nullptr || !step.callees.empty()) continue;
      const bool runs = step.kind == planner::StepKind::compute ||
                        step.kind == planner::StepKind::collective_start ||
                        step.kind == planner::StepKind::collective_done;
      if (!runs || ir::topology_of(*step.instruction).participants() <= 1) continue;
      made.meets[i] = ir::is_meeting(*step.instruction) ? 1 : 0;
      made.goes_on[i] = least_bytes > 0 && ir::may_go_on(*step.instruction) ? 1 : 0;
      any = any || made.goes_on[i] != 0;
    }
  }
  if (!any) return made;
  // What runs meanwhile: up to the first launch that waits, or meets others itself.
  const std::vector<int> first_waits = waits_of(launches, made.goes_on);
  std::vector<std::size_t> until(count, count);
  std::size_t next_meeting = count;
  for (std::size_t i = count; i-- > 0;) {
    until[i] = next_meeting;
    if (made.meets[i] != 0 && made.goes_on[i] == 0) next_meeting = i;
  }
  std::vector<std::int64_t> before(count + 1, 0);  // bytes of launches that do not go on
  for (std::size_t i = 0; i < count; ++i) {
    before[i + 1] = before[i] + (made.goes_on[i] != 0 ? 0 : launches[i].bytes);
    // Who waits for one waits for all before it.
    for (int c = first_waits[i]; c >= 0 && until[at(c)] > i; --c) until[at(c)] = i;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (made.goes_on[i] != 0 && before[until[i]] - before[i] < least_bytes) made.goes_on[i] = 0;
  }
  const std::vector<int> waits = waits_of(launches, made.goes_on);
  std::vector<std::int32_t> numbers(count, 0);  // of what goes on, from 1
  std::int32_t begun = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (made.goes_on[i] != 0) numbers[i] = ++begun;
    if (waits[i] >= 0) made.waits[i] = numbers[at(waits[i])];
  }
  return made;
}

}  // namespace plimsoll::executor
