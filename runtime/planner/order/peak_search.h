// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/order/order_graph.h"

namespace plimsoll::planner {

// Lowers the peak of a valid order by moving ops around it: what a value that lives across the peak
// is made by goes behind the peak, what it dies with goes before it, with the ops that have to go
// along. Every move taken lowers the bytes where they are highest, or their sum at an equal height.
// `effort` bounds the positions looked at.
std::vector<OpId> lower_peak(const OrderGraph& graph, std::vector<OpId> order, std::int64_t effort);

}  // namespace plimsoll::planner
