// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// What XLA converts without an instruction of its own: a broadcast to another element type is that
// of the converted value; where a product of integers, with each other or with floats, results in
// floats, the integers are converted to them. Where `opcode` of these operands, with the result
// `to`, is one, adds the converts and makes them the operands.
void add_implied_conversions(Computation& computation, Opcode opcode, const Shape& to,
                             std::vector<Instruction*>& operands);

}  // namespace plimsoll::ir
