// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/recorded_step.h"
#include "runtime/planner/search.h"

namespace plimsoll::planner {

struct RecordedPlan {
  Schedule schedule;  // of RecordedStep::problem; schedule_text() writes it as actions
  std::int64_t limit_bytes = 0;
  std::int64_t peak_bytes = 0;            // constants included
  std::int64_t unlimited_peak_bytes = 0;  // of keeping everything until its last read
  double predicted_seconds = 0, unlimited_seconds = 0;
  double lower_bound_seconds = 0;  // of a quick plan: unlimited_seconds
  double planning_seconds = 0;
  double overhead = 0;  // predicted over unlimited seconds - 1, in per cent
};

// Plans a recorded step by recomputation under `limit_bytes`, constants included.
// RESOURCE_EXHAUSTED when no schedule is found.
Result<RecordedPlan> plan_recorded_step(const RecordedStep& step, std::int64_t limit_bytes,
                                        const SearchEffort& effort,
                                        Policy policy = Policy::default_);

}  // namespace plimsoll::planner
