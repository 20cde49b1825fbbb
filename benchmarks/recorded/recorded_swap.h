// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "benchmarks/recorded/recorded_plan.h"
#include "runtime/base/status.h"

namespace plimsoll::planner {

// A plan of a recorded step that also moves storages to a tier beside the device's memory. The
// step's accounting is the recorded one; beyond it, a storage's bytes lie in memory from the start
// of its transfer in, and until the end of its transfer out; what comes back brings its views.
// Transfers take nothing from ops, and whole nanoseconds, parts rounded up. The tier's bytes are
// taken from the start of a transfer out until the end of the last one in of what it brought.
struct RecordedSwapPlan {
  // `schedule` is empty; times include what waiting for transfers takes, and the lower bound is
  // one of schedules that may copy (of a quick or reordering search: unlimited_seconds).
  RecordedPlan plan;
  // One action a line: `c OP` and `f STORAGE` as in schedule_text(), `o STORAGE` starts to copy a
  // storage out, `i STORAGE` to copy it in (it is not in memory then), `w STORAGE` waits until the
  // last of these is over.
  std::string actions;
  std::int64_t swapped_bytes = 0;  // copied out
  double stalled_seconds = 0;
};

// RESOURCE_EXHAUSTED when no plan is found. A tier of more bytes never gives a slower plan.
Result<RecordedSwapPlan> plan_recorded_swaps(const RecordedStep& step, std::int64_t limit_bytes,
                                             const SearchEffort& effort, const Tier& tier);

}  // namespace plimsoll::planner
