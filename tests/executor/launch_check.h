// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/executor/launch_order.h"
#include "runtime/planner/plan.h"

namespace plimsoll::testing {

// Holds `order` against the plan, pair by pair of steps (quadratic): every step but those of kind
// `free` runs once; steps of which one writes bytes that the other touches, between start and wait
// of a transfer too, are in different launches in the plan's order; and so are all that may not
// join. What broke, or an empty string.
std::string check_launch_order(const planner::Plan& plan,
                               const IdVector<planner::StepId, char>& may_join,
                               const executor::LaunchOrder& order);

// Whether `second` may run on parts of what `first` makes while that makes others: it reads the one
// result, and writes nothing that `first` touches but the place of that result itself.
std::string check_chain(const planner::Plan& plan, planner::StepId first, planner::StepId second);

}  // namespace plimsoll::testing
