// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/planner/problem.h"

namespace plimsoll::planner {

// Valid execution orders of a graph's ops worth trying: always the textual one first, then, unless
// `fixed`, memory-greedy list schedules and depth-first ones.
std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed);

// The candidate with the lowest unlimited peak, arranged.
Problem arrange_best(const Graph& graph, bool fixed);

}  // namespace plimsoll::planner
