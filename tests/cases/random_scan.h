// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::cases {

// HLO text of a training step by two scans: a forward loop over random operations, which stacks
// some of its values, some behind views and some in reverse, and a backward loop that reads each of
// them a slice a round beside other random operations. Counters start anywhere, step by one or two,
// and may run down; arrays that the loops only read, stacked or not, belong to it, as do in some
// programs an inner pair of loops in each body. Behind them weights and momentum, donated or not,
// are changed by the gradients: of all layers at once, or layer by layer in a loop. A function of
// the seed alone.
std::string random_scan(std::uint64_t seed);

}  // namespace plimsoll::cases
