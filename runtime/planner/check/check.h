// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// Proves a plan by itself: every step's inputs hold the value they should, no two live buffers
// overlap, sizes, results and the peak are what the summary says. INTERNAL with the step on a
// violation.
Status check_plan(const ir::Module& module, const Plan& plan);

// What check_plan finds, and how many plans it went through for that: the entry's, and each
// callee's once, however many steps share it.
struct PlanProof {
  Status status;
  std::int64_t plans = 0;
};
PlanProof prove_plan(const ir::Module& module, const Plan& plan);

}  // namespace plimsoll::planner
