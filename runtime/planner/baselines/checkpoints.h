// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// A schedule under `arena_limit` in which the values marked in `keep` are evicted last, those of
// less than `min_bytes` never, and the others are recomputed from what is there; nothing where it
// does not fit by exact liveness.
std::optional<Schedule> keep_checkpoints(const Problem& problem, IdVector<ValueId, char> keep,
                                         std::int64_t arena_limit, std::int64_t min_bytes);

}  // namespace plimsoll::planner
