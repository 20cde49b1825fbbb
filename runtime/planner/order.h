// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/planner/problem.h"

namespace plimsoll::planner {

// Valid execution orders of a graph's ops worth trying, each once, the lowest peak first: the
// textual one, what list schedulers (order_lists.h) give, and the best of them with its peak
// lowered (order_search.h). Only the textual one when `fixed`.
std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed);

// Of the candidates with about the lowest peak the one that takes the least time when memory is
// short, by quick trials; in large graphs, the lowest peak. Arranged.
Problem arrange_best(const Graph& graph, bool fixed);

}  // namespace plimsoll::planner
