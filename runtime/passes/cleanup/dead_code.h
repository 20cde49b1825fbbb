// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

// The parts of eliminate_dead_code; each returns whether it changed anything and leaves what became
// unused to the next round.
namespace plimsoll::passes {

// Operands that a fused computation does not read, and results that nobody takes.
bool narrow_fusions(ir::Module& module);

// Elements of a loop's state that only feed themselves.
bool narrow_loop_states(ir::Module& module);

}  // namespace plimsoll::passes
