// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// Whether it, or something that it calls, waits for another participant.
bool communicates(const Instruction& instruction);

// True where running an instruction once more, on the same operands, does nothing but compute the
// same result: it, and whatever it calls, has no effects and waits for no other participant, and
// nothing has to come after it by a control dependence.
bool may_run_again(const Instruction& instruction);

}  // namespace plimsoll::ir
