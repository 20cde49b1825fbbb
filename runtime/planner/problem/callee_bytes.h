// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// How much memory the callees of loops, calls and conditionals are given before anything else is
// decided: what is left beside all that lives across them when nothing is evicted, or a share of
// what their own operands leave (0: their smallest plans).
struct CalleeBytes {
  bool beside_everything = false;
  double share = 1;
};
// What is worth trying, best guess first; one entry when the graph has no control flow.
std::span<const CalleeBytes> callee_bytes(const Graph& graph);

// Chooses for every control-flow op its fastest variant within the bytes it has under
// `arena_limit`. `profile`: arena bytes at each op when nothing is evicted and callees are
// fastest.
void choose_callees(Problem& problem, std::span<const std::int64_t> profile,
                    std::int64_t arena_limit, const CalleeBytes& given);

// Gives what `schedule` leaves of `arena_limit` around each control-flow op to its callees. True
// when a variant changed, to a faster one always.
bool use_available_bytes(Problem& problem, std::span<const OpId> schedule,
                         std::int64_t arena_limit);

}  // namespace plimsoll::planner
