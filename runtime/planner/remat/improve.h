// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// Takes out executions whose results nobody reads before they are recomputed.
void drop_unread(const Problem& problem, Schedule& schedule);

// Turns recomputations back into kept values wherever the exact profile stays within `arena_limit`,
// dearest seconds per byte and position first, as long as that does not make it faster than
// `least_seconds`. `schedule` must itself fit.
void keep_where_it_fits(const Problem& problem, Schedule& schedule, std::int64_t arena_limit,
                        double least_seconds);

}  // namespace plimsoll::planner
