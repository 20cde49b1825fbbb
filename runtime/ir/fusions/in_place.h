// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// True when the kernel of `instruction` stays right if result leaf `output_leaf` is written into
// the very buffer of operand leaf `operand_leaf` (numbered over all operands in order): elementwise
// operations and fusions that read that operand only at the index they write, dynamic-update-slice
// and scatter on their first operand, all-reduce on the operand of the same number. Always requires
// equal byte sizes.
bool may_reuse_operand(const Instruction& instruction, int operand_leaf, int output_leaf);

}  // namespace plimsoll::ir
