// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// Per value, the leaf of the result in whose memory it is made; -1: none. A result's memory is
// there all the time: what the result takes the place of (a loop's start, a side of a sum) is made
// there, too, and what that takes the place of in turn. Only where neither can be made a second
// time, which would overwrite the result. Not of results that go to donated parameters or are not
// computed.
IdVector<ValueId, std::int32_t> result_leaves(const Graph& graph);

}  // namespace plimsoll::planner
