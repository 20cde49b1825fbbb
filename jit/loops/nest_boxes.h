// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "jit/loops/placed_roots.h"

namespace plimsoll::jit {

// The same phases, but a nest over results that are computed element by element from a concatenate
// or a pad is cut into boxes, each with a phase, in which it is known which operand an element
// comes from. Then nothing is loaded twice and selected. Nests stay whole where they are small,
// where that would give many boxes, or too many elements in short rows.
std::vector<PhaseNest> cut_into_boxes(const KernelGraph& graph, std::vector<PhaseNest> phases);

}  // namespace plimsoll::jit
