// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// What the greedy pass makes of the problem's computation under `arena_limit`, its clones taken as
// executions of the ops they go back to; nothing when that does not fit by exact liveness. The
// problem must be arranged in textual order.
std::optional<Schedule> greedy_schedule(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes);

}  // namespace plimsoll::planner
