// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/search.h"

#include <utility>

#include "runtime/planner/local_search.h"
#include "runtime/planner/remat.h"
#include "runtime/planner/search_clock.h"
#include "runtime/planner/walk_search.h"

namespace plimsoll::planner {
namespace {

// Units of SearchClock per op: about a millisecond.
constexpr double kWorkPerOp = 1e6;
constexpr double kWalkShare = 0.5;

}  // namespace

std::optional<Schedule> search_schedule(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes, const SearchEffort& effort,
                                        std::span<const Schedule> starts) {
  std::optional<Schedule> best = rematerialize(problem, arena_limit, min_bytes, 0);
  const auto offer = [&](Schedule schedule) {
    if (best && total_seconds(problem, schedule) >= total_seconds(problem, *best)) return;
    best = std::move(schedule);
  };
  for (const Schedule& start : starts) {
    if (is_valid(problem, start) && evaluate(problem, start).arena_peak <= arena_limit) {
      offer(start);
    }
  }
  const auto ops = static_cast<std::size_t>(problem.op_count());
  if (effort.level == SearchEffort::Level::quick || (best && best->size() == ops)) return best;

  const double work = kWorkPerOp * effort.scale * problem.op_count();
  SearchClock walk_clock(static_cast<std::int64_t>(work * kWalkShare), effort.seconds * kWalkShare);
  WalkSearch(problem, min_bytes, arena_limit, 1).run(best, walk_clock);
  LocalSearch local(problem, min_bytes, effort.reorder, 1);
  if (!best) {
    // From the schedule that comes nearest.
    for (const Schedule& start : starts) {
      Schedule schedule = start;
      if (is_valid(problem, schedule) && local.fit(schedule, arena_limit)) {
        offer(std::move(schedule));
      }
    }
  }
  if (!best) return best;
  SearchClock local_clock(static_cast<std::int64_t>(work * (1 - kWalkShare)),
                          effort.seconds * (1 - kWalkShare));
  local.improve(*best, arena_limit, local_clock);
  return best;
}

}  // namespace plimsoll::planner
