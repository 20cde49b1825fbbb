// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "jit/reductions/row_writer.h"

// What the accumulators of rows come to, in the order of graph/reduction_shape.h: by halves, slots
// first, then lanes. Lanes that took no element hold the identity.
namespace plimsoll::jit {

// Slots of one row, a power of two of them, as one vector.
llvm::Value* fold_slots(RowStages& stages, int reduce, std::vector<llvm::Value*> slots);

// The vectors of some rows, not more than each has lanes, as a vector with a lane for each row (up
// to a power of two), in order; of one row a scalar.
llvm::Value* fold_lanes(llvm::IRBuilder<>& builder, RowStages& stages, int reduce,
                        std::vector<llvm::Value*> rows);

}  // namespace plimsoll::jit
