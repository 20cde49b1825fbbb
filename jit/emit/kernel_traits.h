// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"

namespace plimsoll::jit {

// Lanes of a loop kernel's vectors, when rows are long enough: so many of its widest dtype.
int vector_lanes(const KernelGraph& graph, const KernelTarget& target);

// True when nothing is computed, only moved; when all floats are bf16, and there are some.
bool only_moves(const KernelGraph& graph);
bool computes_bf16(const KernelGraph& graph);

// Rough seconds to compute one element of everything in the graph, on one thread.
double seconds_per_element(const KernelGraph& graph);

}  // namespace plimsoll::jit
