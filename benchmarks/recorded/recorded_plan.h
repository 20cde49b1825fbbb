// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "benchmarks/recorded/recorded_step.h"
#include "runtime/base/status.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/remat/search.h"

namespace plimsoll::planner {

struct RecordedPlan {
  Schedule schedule;  // of RecordedStep::problem; schedule_text() writes it as actions
  std::int64_t limit_bytes = 0;
  std::int64_t peak_bytes = 0;            // constants included
  std::int64_t unlimited_peak_bytes = 0;  // of keeping everything until its last read
  double predicted_seconds = 0, unlimited_seconds = 0;
  // No schedule with the same order of first executions takes less; of a quick plan:
  // unlimited_seconds.
  double lower_bound_seconds = 0;
  double planning_seconds = 0;
  double overhead = 0;  // predicted over unlimited seconds - 1, in per cent
};

// Plans a recorded step by recomputation under `limit_bytes`, constants included.
// RESOURCE_EXHAUSTED when no schedule is found. Never slower than any of `starts` that fits: plans
// for rising limits, each given the ones before, never get slower as the limit rises. Calls on
// their own promise no such thing.
Result<RecordedPlan> plan_recorded_step(const RecordedStep& step, std::int64_t limit_bytes,
                                        const SearchEffort& effort,
                                        Policy policy = Policy::default_,
                                        std::span<const Schedule> starts = {});

}  // namespace plimsoll::planner
