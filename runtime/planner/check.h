// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// What check_plan finds, and how many plans it went through for that: the entry's, and each
// callee's once, however many steps share it.
struct PlanProof {
  Status status;
  std::int64_t plans = 0;
};
PlanProof prove_plan(const ir::Module& module, const Plan& plan);

}  // namespace plimsoll::planner
