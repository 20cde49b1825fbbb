// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "benchmarks/recorded/recorded_step.h"
#include "benchmarks/recorded/recorded_swap_play.h"

namespace plimsoll::planner {

// Brings a schedule of `step.problem` under `limit_bytes` (constants included) by copying storages
// while they lie idle. Those that take the most off what is over the limit by the link's time are
// taken first, where possible such that no op has to wait for them. Where some do, up to `tries`
// other choices are tried, the same every time. Any number of copies in are made of one copy out.
CoveredSchedule cover_by_copies(const RecordedStep& step, std::span<const OpId> schedule,
                                std::int64_t limit_bytes, const Tier& tier, int tries);

}  // namespace plimsoll::planner
