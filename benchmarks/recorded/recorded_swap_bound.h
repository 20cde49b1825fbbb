// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// No schedule with these first executions that recomputes and copies to and from `tier` takes less
// within `arena_limit`: one that takes x more than every op once needs the recomputations of a
// limit that is higher by what the link carries in that time (bytes_in_tiers), and x is at least
// what those take. `most_seconds`: of a schedule that is known; the closer, the better the bound.
double swap_bound_seconds(const Problem& problem, std::int64_t arena_limit, const Tier& tier,
                          double most_seconds);

}  // namespace plimsoll::planner
