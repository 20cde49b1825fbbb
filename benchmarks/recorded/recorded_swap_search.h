// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "benchmarks/recorded/recorded_step.h"
#include "benchmarks/recorded/recorded_swap_cover.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remat/search.h"

namespace plimsoll::planner {

// The fastest schedule of the step found under `limit_bytes`, constants included, that recomputes
// and copies. What can be elsewhere at a time step does not depend on what it is: first schedules
// are searched that only recompute, under a limit that is higher at every time step by what the
// link can have taken away by then (bytes_in_tier), then their idle storages are copied to bring
// them under the limit. How much of the link's room is counted on is what is searched. Nothing when
// none is found. `recomputed`, when not empty, is a schedule within the limit to begin with.
std::optional<CoveredSchedule> search_copies(const RecordedStep& step, std::int64_t limit_bytes,
                                             const Tier& tier, const SearchEffort& effort,
                                             std::span<const OpId> recomputed);

}  // namespace plimsoll::planner
