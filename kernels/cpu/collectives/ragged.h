// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// ragged-all-to-all: operands are rows to send, the result as it is before any arrive, and four
// vectors of k numbers for each member of the group: the first row of each update and how many rows
// it has, at which row of that member's result it goes, and how many rows come from that member.
// Members first tell each other sizes and places, then send the rows.
//
// A launch is INVALID_ARGUMENT, for all members, where rows are named that there are not, where two
// updates write the same row, and where a receiver was told another size than is sent.
KernelResult make_ragged_all_to_all(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
