// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/planner/plan.h"

namespace plimsoll::tools {

// The program that `plan` (of `module`) runs, as a scheduled module: the instructions in the plan's
// order, a clone `x.remat`, `x.remat2`, ... for every recomputation. Callees whose plans recompute
// are specialised per call site.
Result<std::unique_ptr<ir::Module>> module_of_plan(const ir::Module& module,
                                                   const planner::Plan& plan);

}  // namespace plimsoll::tools
