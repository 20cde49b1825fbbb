// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// A result leaf of a conditional that may take the place of a value that dies there: what a branch
// hands on stays where it is, and what it updates is updated there.
struct BranchState {
  int result = -1;
  ValueId value;
  // Per branch, the leaf of its argument that is the value; -1: it does not read it.
  std::vector<int> leaves;
};

// Of the conditional `op` of `graph`, whose branches are `branches`, by rising result leaves; each
// value once. Those of which at least as many branches hand the value on or may update it in place
// as read it and compute something else, which is copied into its place in the end.
std::vector<BranchState> find_branch_states(const Graph& graph, OpId op,
                                            std::span<const Graph* const> branches);

}  // namespace plimsoll::planner
