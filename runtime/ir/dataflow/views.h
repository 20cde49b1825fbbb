// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"
#include "runtime/ir/shown.h"

namespace plimsoll::ir {

// True where every user of a tuple takes an element of it, in no order of its own.
bool only_elements_are_taken(const Instruction& tuple);

// True when operand leaf `operand_leaf` may become the buffer of result leaf `output_leaf`
// (in_place.h), control flow included: a while's state may stay where it is.
bool reuses_operand(const Instruction& instruction, int operand_leaf, int output_leaf);

// True when leaf `leaf` of a while's state is never changed: what goes in comes out, and the loop
// may read it where it is. False for anything but a while.
bool passes_through(const Instruction& loop, int leaf);

// The instruction whose operands and results are in use until `done` has run: the start that an
// asynchronous done ends; null for any other instruction.
const Instruction* async_start_of(const Instruction& done);

}  // namespace plimsoll::ir
