// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// XLA takes a broadcast to another element type as that of the converted value. Where `opcode` of
// these operands, with the result `to`, is one, adds the convert and makes it the operand.
void convert_before_broadcast(Computation& computation, Opcode opcode, const Shape& to,
                              std::vector<Instruction*>& operands);

}  // namespace plimsoll::ir
