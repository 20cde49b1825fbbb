// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// Of the candidates with about the lowest peak the one that takes the least time when memory is
// short, by quick trials; in large graphs, the lowest peak. Arranged.
Problem arrange_best(const Graph& graph, bool fixed);

// Arranged orders that by quick trials are clearly faster than `best`, whose arena peaks at
// `arena_peak`, and than those before them when memory is short, or work where those don't:
// gradients added up as they come, say, where waiting with that lowers the peak. Few, often none.
std::vector<Problem> arrange_others(const Graph& graph, const Problem& best,
                                    std::int64_t arena_peak);

// What a problem takes under `arena_limit` by one or two quick simulations; nothing where they
// don't get there.
std::optional<double> trial_seconds(const Problem& problem, std::int64_t arena_limit);

}  // namespace plimsoll::planner
