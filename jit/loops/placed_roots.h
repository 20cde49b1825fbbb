// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/loops/loop_nest.h"

namespace plimsoll::jit {

// A nest that runs as a phase of its own, unless input `unless_input` (>= 0) is in the buffer of
// output `unless_output`: then what it would copy is there.
struct PhaseNest {
  LoopNest nest;
  int unless_input = -1, unless_output = -1;
};

// The phases of a loop kernel: one nest that computes all roots element by element, but those that
// are stored operand by operand where each operand's elements go (concatenate, pad,
// dynamic-update-slice), which have a nest per operand after it, or one for operands that take
// turns. Updates at one place have one nest for all roots, after those that copy what is updated.
std::vector<PhaseNest> plan_nests(const KernelGraph& graph);

}  // namespace plimsoll::jit
