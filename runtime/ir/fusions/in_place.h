// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::ir {

// True when the kernel of `instruction` stays right if result leaf `output_leaf` is written into
// the very buffer of operand leaf `operand_leaf` (numbered over all operands in order): elementwise
// operations and fusions that read that operand only at the index they write (a fusion that updates
// a part of it: where that part lies), dynamic-update-slice and scatter on their first operand,
// all-reduce on the operand of the same number. Always requires equal byte sizes. Fusions with
// several results update at most all of their arrays at one place, in one sweep
// (updates_at_one_place).
bool may_reuse_operand(const Instruction& instruction, int operand_leaf, int output_leaf);

// True when `slice` takes what `update` replaces of the same array, and all that is computed of it,
// element by element, is stored where it was read.
bool reads_what_it_replaces(const Instruction& slice, const Instruction& update);

// The same dims in the same order, but for those of one element.
bool differ_in_ones_only(const Dims& a, const Dims& b);

// True when the results of a fusion, of which some are updates of its parameters, can be made in
// one sweep over the elements of an update: all updates are of one size and at one place, and all
// other results have the same elements in the same order.
bool updates_at_one_place(const Computation& fused);

// True when that holds and each of the updates may write into the buffer of the parameter that it
// updates.
bool updates_in_place(const Computation& fused);

}  // namespace plimsoll::ir
