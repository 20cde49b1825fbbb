// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// An order of an array's dimensions: dimension i of the array in its new order is order[i] of the
// old one. What `transpose` calls a permutation.
using DimensionOrder = std::vector<std::int64_t>;

bool is_identity(const DimensionOrder& order);
DimensionOrder inverse(const DimensionOrder& order);
// The bytes lie the same in both orders: only dimensions of size one change places.
bool keeps_bytes(const DimensionOrder& order, const ir::Dims& dims);
ir::Shape reordered(const ir::Shape& shape, const DimensionOrder& order);

// Operands that have the dimensions of the instruction's result, one for one (other sizes they may
// have): in whatever order those come, the instruction does the same. Convolutions have none: each
// of their arrays has an order of its own. Empty as well where the order means something.
std::vector<int> corresponding_operands(const ir::Instruction& instruction);

// True where the result may have any order: there are corresponding operands, or the attributes say
// what each dimension is (broadcast, iota, convolution).
bool takes_any_order(const ir::Instruction& instruction);
// False where this order would change in which sequence windows or their elements are taken.
bool allows_order(const ir::Instruction& instruction, const DimensionOrder& order);

// True when `instruction`, which has no result in the order of its operand, may read operand
// `operand` in `order`: reductions that take the same elements in the same order, transposes,
// convolutions.
bool reads_any_order(const ir::Instruction& instruction, int operand, const DimensionOrder& order);

// Changes the attributes (and the order of index operands) of a copy of such an instruction whose
// result, or operand `operand`, is in `order` now.
void reorder_result(ir::Instruction& copy, const DimensionOrder& order);
void reorder_operand(ir::Instruction& copy, int operand, const DimensionOrder& order);

}  // namespace plimsoll::passes
