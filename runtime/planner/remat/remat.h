// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/techniques.h"

namespace plimsoll::planner {

// A schedule whose arena peak by liveness is at most `arena_limit`, as cheap in time as a portfolio
// of eviction simulations with known next uses, improved by local search, finds it; nothing when
// none of them gets there. It is cheaper than `least_seconds` only when every simulation is. Values
// smaller than `min_bytes` are never evicted. Deterministic.
std::optional<Schedule> rematerialize(const Problem& problem, std::int64_t arena_limit,
                                      std::int64_t min_bytes, double least_seconds,
                                      const TechniqueSet& without = {});

}  // namespace plimsoll::planner
