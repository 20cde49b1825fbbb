// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_set>
#include <vector>

#include "runtime/ir/module.h"

namespace plimsoll::passes {

// A tree of additions of one shape whose inner values have no other use.
struct Sum {
  ir::Instruction* root = nullptr;
  std::vector<ir::Instruction*> inner;    // the other additions, in no particular order
  std::vector<ir::Instruction*> addends;  // from left to right
};
// Those of more than two addends, in schedule order of their roots.
std::vector<Sum> find_sums(const ir::Computation& computation);

// True when `addend` is there for a sum alone: it, or what it is a movement or a conversion of,
// comes out of a kernel of its own, is large, and has no other use. Until it is added it takes
// memory.
bool waits_for_sum(const ir::Instruction& addend);

// The inner additions of sums of which so many addends wait, or would stay after their other
// readers, that one kernel for the whole sum would hold them all; as kernels of their own they run
// when their addend is there, in the buffer of the sum so far.
std::unordered_set<const ir::Instruction*> accumulations(const ir::Computation& computation);

}  // namespace plimsoll::passes
