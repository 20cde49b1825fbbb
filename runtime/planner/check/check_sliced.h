// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/planner/plan.h"

namespace plimsoll::planner {

// That the leaves which a step has by slices (Step::sliced) are residuals that its loop uses so,
// and that its callees' plans touch them by the instructions that do, in place, and not otherwise.
Status check_residuals(const Step& step);

}  // namespace plimsoll::planner
