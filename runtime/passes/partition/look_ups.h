// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"
#include "runtime/ir/sharding.h"

namespace plimsoll::passes {

// Of a gather's `indices`, which become those into this partition's tile of the table: appends
// which of them lie in it, in the indices' shape without the dimension of index vectors. The table
// is cut along `dimension`, of which each index takes one place.
ir::Instruction* look_up_inside(const ir::Instruction& gather, const ir::Sharding& table,
                                int dimension, ir::Instruction*& indices);

// Appends what the gather made, with zeros where an index lies in another tile.
ir::Instruction* add_where_looked_up(const ir::Instruction& gather, ir::Instruction* made,
                                     ir::Instruction* is_inside);

}  // namespace plimsoll::passes
