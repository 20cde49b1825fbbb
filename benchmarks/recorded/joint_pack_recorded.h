// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/recorded/joint_pack.h"
#include "benchmarks/recorded/recorded_plan.h"
#include "benchmarks/recorded/recorded_step.h"
#include "runtime/base/status.h"

namespace plimsoll::planner {

struct AddressedRecordedPlan {
  RecordedPlan plan;  // its peak is that of the addresses, constants included
  Packing packing;    // of residencies(step.problem, plan.schedule)
};

// As plan_recorded_step, with the limit counted in addresses. Constants lie beside them, as one
// block without holes: all other storages lie in [0, limit - constants).
Result<AddressedRecordedPlan> plan_recorded_step_in_addresses(const RecordedStep& step,
                                                              std::int64_t limit_bytes,
                                                              const SearchEffort& effort);

// schedule_text with the place of each storage that an op makes: `c OP STORAGE@OFFSET ...`.
std::string addressed_schedule_text(const RecordedStep& step, const AddressedRecordedPlan& plan);

}  // namespace plimsoll::planner
