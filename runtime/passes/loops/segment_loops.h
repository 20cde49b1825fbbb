// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/passes/loops/residual_pair.h"

namespace plimsoll::passes {

// Whether the loops' order and number of rounds are such that segments may take fewer bytes.
bool may_have_segments(const ResidualPair& pair);

// How many rounds a segment has (segment_loops) with which the stacks take the fewest bytes; 0
// where what the forward loop stacks is not what it carries from round to round alone, where a
// round has what may not be repeated, or where segments take more than 0.7 of the bytes. It need
// not divide the rounds: those that are left over are meant to be a pair of their own
// (split_loops).
std::int64_t segment_length(const ResidualPair& pair);

// The forward loop stacks what it carries once in `length` rounds; the backward loop goes through
// these segments, last to first, and in each runs the forward rounds once more, as far as they are
// carried on, which stack what they carry for the backward rounds of the segment. So n rounds take
// about 2 * sqrt(n) slices of stacks instead of n, for the time of another forward loop: the
// checkpoints of Griewank's treeverse, one level deep, and of sqrt(n) checkpointing (Chen et al.,
// 2016). Every value is computed by the operations that computed it before.
// Precondition: segment_length is not 0, and `length` divides the rounds.
void segment_loops(const ResidualPair& pair, std::int64_t length);

}  // namespace plimsoll::passes
