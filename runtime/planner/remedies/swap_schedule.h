// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/swap_model.h"
#include "runtime/planner/remedies/swap_play.h"

namespace plimsoll::planner {

// A problem in which a value has several producers: its own, and the waits of its swap_ins.
struct SwapSchedule {
  std::shared_ptr<const Problem> problem;
  IdVector<ValueId, ValueId> origin;  // as of apply_choices
  Schedule schedule;
};

// The problem with the transfers of what a schedule copies, as ops of their own, and the schedule
// of it.
SwapSchedule with_transfers(const SwapModel& model, const CoveredSchedule& covered);

}  // namespace plimsoll::planner
