// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/planner/problem.h"

namespace plimsoll::planner {

// Valid execution orders of a graph's ops worth trying, the lowest peak first: the textual one,
// what list schedulers (order_lists.h) give, and the best of them with its peak lowered
// (order_search.h). Only the textual one when `fixed`.
std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed);

// The candidate with the lowest unlimited peak, arranged.
Problem arrange_best(const Graph& graph, bool fixed);

}  // namespace plimsoll::planner
