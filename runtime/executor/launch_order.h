// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/plan.h"

namespace plimsoll::executor {

// A plan's steps in launches, one after the other: launch i is steps [ends[i - 1], ends[i]) of
// `steps`, which may run at the same time. Steps of kind `free` are left out.
struct LaunchOrder {
  std::vector<planner::StepId> steps;
  std::vector<std::int32_t> ends;
};

// Puts steps that may share a launch (`may_join`) together, and leaves
// the order of all others as it is. Two steps keep their order, and are in different launches,
// where one writes device memory that the other reads or writes, at the addresses that the plan
// gives them. Transfers hold what they move from their start to the end of their wait; calls, loops
// and conditionals use their operands, results, workspace and windows; nothing moves across a
// collective or an asynchronous operation, or becomes part of one. What waits for a collective
// joins no launch before it that does not (collectives_beside.h). So values, addresses and the peak
// stay as planned.
//
// A step joins the farthest launch that it may move to past `near_bytes` at most
// (device::Properties::near_memory_bytes), so that what it shares with its neighbours is still
// near: later ones first (updates of parameters wait for each other), then earlier ones. Takes O(n
// log n): of what each step touches only the last launches are kept, in an interval map.
LaunchOrder order_launches(const planner::Plan& plan,
                           const IdVector<planner::StepId, char>& may_join,
                           std::int64_t near_bytes);

}  // namespace plimsoll::executor
