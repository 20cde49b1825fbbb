// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/planner/plan.h"

namespace plimsoll::planner {

// Writes a plan's order and recomputations into the module it was made for: every recompute step
// becomes a clone named x.remat, x.remat2, ... that the reads after it use, in callees too (the
// first plan met for a computation counts). Leaves the module scheduled and valid. Returns whether
// anything was added or moved. INVALID_ARGUMENT for plans that compress or swap. The plan refers to
// instructions of `module` and is stale afterwards.
Result<bool> apply_plan(ir::Module& module, const Plan& plan);

}  // namespace plimsoll::planner
