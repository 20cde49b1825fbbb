// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/order/order_graph.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// Valid execution orders of a graph's ops worth trying, each once, the lowest peak first: the
// textual one, what list schedulers (list_schedulers.h) give, and the best of them with its peak
// lowered (peak_search.h). Only the textual one when `fixed`.
std::vector<std::vector<OpId>> candidate_orders(const Graph& graph, bool fixed);

// The textual order, and what becomes of it when ops that free bytes run as soon, and those that
// take bytes as late as they can.
std::vector<std::vector<OpId>> orders_as_written(const OrderGraph& graph);
// These, and what the list schedulers give.
std::vector<std::vector<OpId>> listed_orders(const OrderGraph& graph);
// How many positions lower_peak() may look at.
std::int64_t search_effort(const OrderGraph& graph);

}  // namespace plimsoll::planner
