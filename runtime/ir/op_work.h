// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/opcode.h"

namespace plimsoll::ir {

// What one element of an operation costs inside a loop, in additions (op_work.def).
double op_work(Opcode opcode);

}  // namespace plimsoll::ir
