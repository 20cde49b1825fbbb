// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// Starts swap_ins earlier and waits for swap_outs later where a wait lasts and the bytes fit under
// `arena_limit`. The schedule must itself fit, and never gets slower.
void hide_transfers(const Problem& problem, Schedule& schedule, std::int64_t arena_limit);

}  // namespace plimsoll::planner
