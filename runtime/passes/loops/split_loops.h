// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/passes/loops/residual_pair.h"

namespace plimsoll::passes {

// Makes four loops of the two of a pair: the forward loop's first `rounds` rounds, its others, and
// the rounds of the backward loop that read the slices of each, in the order in which they ran.
// Each half stacks its own residuals, so that passes may choose for each what is stacked. What a
// round computes stays.
//
// Returns the first half of the forward loop; the pair's loops are gone. Null, and nothing is
// changed, where the backward loop does not go through the slices in the reverse order, or the
// rounds of a loop can't be counted.
ir::Instruction* split_loops(const ResidualPair& pair, std::int64_t rounds);

}  // namespace plimsoll::passes
