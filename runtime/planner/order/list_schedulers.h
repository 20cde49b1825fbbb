// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/planner/order/order_graph.h"

namespace plimsoll::planner {

// List schedulers: each gives a valid order in near-linear time. Ties go by textual order.

// Always the ready op that frees most, net of what it makes.
std::vector<OpId> memory_greedy_order(const OrderGraph& graph);
// The same from the end backwards: always the op that needs least, net of what it makes.
std::vector<OpId> reverse_greedy_order(const OrderGraph& graph);
// Depth first from the sinks; of an op's predecessors, the one with the largest need beyond what it
// leaves behind goes first (Sethi and Ullman's rule on a DAG taken as a tree), or, `by_size`, the
// one that makes most.
std::vector<OpId> depth_first_order(const OrderGraph& graph, bool by_size);
// By the longest path that leads to an op.
std::vector<OpId> level_order(const OrderGraph& graph);
// `order`, with what frees more than it makes as soon as it can run.
std::vector<OpId> eager_order(const OrderGraph& graph, std::span<const OpId> order);
// `order`, with what makes more than it frees as late as it can run.
std::vector<OpId> lazy_order(const OrderGraph& graph, std::span<const OpId> order);

}  // namespace plimsoll::planner
