// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// Orders of the problem's ops worth searching along, its own first: all in which values are made
// before they are read and the last op stays the last, as candidate_orders() finds them.
std::vector<std::vector<OpId>> search_orders(const Problem& problem);

// The ops in the order in which the schedule first runs them.
std::vector<OpId> order_of_first_runs(const Problem& problem, std::span<const OpId> schedule);

}  // namespace plimsoll::planner
