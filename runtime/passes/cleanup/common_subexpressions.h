// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/passes/cleanup/structure.h"

namespace plimsoll::passes {

// Equal instructions of a computation become one, and what nothing uses goes. `classes` know the
// computations that it calls. True when anything changed.
Result<bool> merge_equal_instructions(ir::Computation& computation,
                                      const ComputationClasses& classes);

}  // namespace plimsoll::passes
