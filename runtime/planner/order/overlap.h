// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// Whether some op is a collective that may go on beside others (ir::may_go_on).
bool has_overlap(const Problem& problem);

// What a schedule takes if its collectives go on beside compute steps, one after the other, from
// where the schedule has them until something uses what they work on.
double overlapped_seconds(const Problem& problem, std::span<const OpId> schedule);

// The same executions in an order in which collectives have more to go on beside, within
// `arena_bytes` by liveness, where operands of what is under way count until it is done. A
// collective begins as soon as there is what it reads, or, where it needs more memory than it frees
// (a gather), when what is computed until its result is read takes about as long as it does. What
// would wait for one that is under way lets others go first. Collectives, and all that meets others
// or moves between tiers, keep their order; so do control dependences.
//
// List scheduling (Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal on Applied
// Mathematics 17, 1969) of two machines, the processor and the network, by the given order. Nothing
// where that is not faster than `schedule` by the problem's prices. Takes O(n w) for n executions
// of which w wait at a time.
std::optional<Schedule> overlap_collectives(const Problem& problem, std::span<const OpId> schedule,
                                            std::int64_t arena_bytes);

}  // namespace plimsoll::planner
