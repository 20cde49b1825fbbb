// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/search.h"

#include "runtime/planner/remat.h"

namespace plimsoll::planner {

std::optional<Schedule> search_schedule(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes, const SearchEffort& effort,
                                        std::span<const Schedule> starts) {
  (void)effort;
  auto best = rematerialize(problem, arena_limit, min_bytes, 0);
  for (const Schedule& start : starts) {
    if (!is_valid(problem, start)) continue;
    const Evaluation e = evaluate(problem, start);
    if (e.arena_peak > arena_limit) continue;
    if (!best || e.seconds < total_seconds(problem, *best)) best = start;
  }
  return best;
}

}  // namespace plimsoll::planner
