// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"
#include "runtime/ir/participants.h"

namespace plimsoll::passes {

// Whether `count` shares of a value of this dtype are its quotient: floats, where the count is a
// number of the dtype. A power of two divides without rounding (but for subnormal quotients).
bool shares_by_division(ir::DType dtype, std::int64_t count);

// What each member of a group adds of a value that all of them have, so that the sum over the group
// is the value: its quotient, or all of it in the first member and zeros in the others. New
// instructions stand right before `before`.
ir::Instruction* add_share(ir::Instruction& before, ir::Instruction& value,
                           const ir::Groups& groups);

// The same for a module that holds the programs of several partitions, in that of this number.
ir::Instruction* add_share_of_program(ir::Instruction& before, ir::Instruction& value,
                                      std::int64_t programs, std::int64_t number);

}  // namespace plimsoll::passes
