// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/launch_check.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace plimsoll::testing {
namespace {

using planner::Buffer;
using planner::BufferId;
using planner::Placement;
using planner::Plan;
using planner::Step;
using planner::StepId;
using planner::StepKind;

// What is lent of a result lies in the result's bytes.
Placement space_of(const Buffer& b) {
  return b.placement == Placement::lent ? Placement::output : b.placement;
}

bool overlap(const Buffer& a, const Buffer& b) {
  if (space_of(a) != space_of(b) || a.bytes == 0 || b.bytes == 0) return false;
  if (space_of(a) == Placement::constant) return false;
  const bool callers = a.placement == Placement::parameter || space_of(a) == Placement::output;
  if (callers && a.index != b.index) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

struct Touched {
  std::vector<BufferId> reads, writes;
};

Touched touched(const Plan& plan, const Step& step) {
  if (step.kind == StepKind::swap_wait) return touched(plan, plan.steps[step.transfer]);
  Touched found{step.inputs, step.outputs};
  found.writes.insert(found.writes.end(),
                      {step.workspace, step.tier_workspaces.host, step.tier_workspaces.disk});
  for (const planner::SlicedState& state : step.sliced) found.writes.push_back(state.window);
  std::erase_if(found.reads, [](BufferId id) { return id < 0; });
  std::erase_if(found.writes, [](BufferId id) { return id < 0; });
  return found;
}

bool any_overlap(const Plan& plan, const std::vector<BufferId>& a, const std::vector<BufferId>& b) {
  for (const BufferId x : a) {
    for (const BufferId y : b) {
      if (overlap(plan.buffers[x], plan.buffers[y])) return true;
    }
  }
  return false;
}

}  // namespace

std::string check_launch_order(const Plan& plan, const IdVector<StepId, char>& may_join,
                               const executor::LaunchOrder& order) {
  IdVector<StepId, int> launch_of(plan.steps.size(), -1);
  std::size_t begin = 0;
  for (std::size_t launch = 0; launch < order.ends.size(); ++launch) {
    const auto end = at(order.ends[launch]);
    if (end <= begin) return "launch " + std::to_string(launch) + " is empty";
    for (std::size_t i = begin; i < end; ++i) {
      const StepId step = order.steps[i];
      if (launch_of[step] >= 0) return "step " + std::to_string(step.value()) + " runs twice";
      if (end - begin > 1 && may_join[step] == 0) {
        return "step " + std::to_string(step.value()) + " may not join a launch";
      }
      launch_of[step] = static_cast<int>(launch);
    }
    begin = end;
  }
  if (begin != order.steps.size()) return "steps behind the last launch";
  IdVector<StepId, Touched> of;
  for (const Step& step : plan.steps) of.push_back(touched(plan, step));
  for (const StepId b : plan.steps.ids()) {
    if ((plan.steps[b].kind == StepKind::free) != (launch_of[b] < 0)) {
      return "step " + std::to_string(b.value()) + " is left out, or nothing to run";
    }
    if (launch_of[b] < 0) continue;
    for (StepId a(0); a < b; ++a) {
      if (launch_of[a] < 0 || launch_of[a] < launch_of[b]) continue;
      const bool apart = may_join[a] == 0 && may_join[b] == 0;
      if (apart || any_overlap(plan, of[a].writes, of[b].writes) ||
          any_overlap(plan, of[a].reads, of[b].writes) ||
          any_overlap(plan, of[a].writes, of[b].reads)) {
        return "step " + std::to_string(b.value()) + " does not run after step " +
               std::to_string(a.value());
      }
    }
  }
  return {};
}

std::string check_chain(const Plan& plan, StepId first, StepId second) {
  const Touched a = touched(plan, plan.steps[first]), b = touched(plan, plan.steps[second]);
  const std::string pair =
      "steps " + std::to_string(first.value()) + " and " + std::to_string(second.value());
  if (plan.steps[first].outputs.size() != 1) return pair + ": the first makes several results";
  const BufferId made = plan.steps[first].outputs[0];
  if (std::count(b.reads.begin(), b.reads.end(), made) != 1) return pair + " are no chain";
  for (const BufferId written : b.writes) {
    const Buffer &x = plan.buffers[written], &y = plan.buffers[made];
    const bool is_its_place = x.placement != Placement::parameter && overlap(x, y) &&
                              x.offset == y.offset && x.bytes == y.bytes;
    if (any_overlap(plan, {written}, a.reads) ||
        (!is_its_place && any_overlap(plan, {written}, a.writes))) {
      return pair + ": the second writes what the first still uses";
    }
  }
  if (plan.steps[second].workspace >= 0) return pair + ": the second has a workspace";
  return {};
}

}  // namespace plimsoll::testing
