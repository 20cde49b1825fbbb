// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// `order` is a permutation of the graph's ops that respects values and `after`. `movable`: updates
// of donated parameters may be moved behind the parameter's last reader.
Problem arrange(const Graph& graph, std::span<const OpId> order, bool movable);

// Books variant `choice` of the control-flow op `op`: its arena becomes the workspace, its time is
// added.
void choose_variant(Problem& problem, OpId op, int choice);

}  // namespace plimsoll::planner
