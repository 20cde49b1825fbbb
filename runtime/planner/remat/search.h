// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/techniques.h"

namespace plimsoll::planner {

// How much work a search may do.
struct SearchEffort {
  enum class Level : std::uint8_t {
    quick,     // simulations only: about a hundredth of a millisecond per op
    thorough,  // simulations, then local search for about a millisecond per op
  };
  Level level = Level::thorough;
  double scale = 1;    // of the local search's work
  double seconds = 0;  // local search until this much time has passed instead; 0: by counted work,
                       // so that equal inputs give equal schedules
  // First executions may move as well, as far as values allow: ops must have no other reason for
  // order, but that the last one stays the last. Bounds hold for the schedule's own order alone.
  bool reorder = false;
  bool simulated = false;  // `starts` hold what `rematerialize` finds: it is not asked again
  TechniqueSet without;
};

// The fastest schedule found whose arena peak by liveness is at most `arena_limit`; nothing when
// none is found. First executions stay in the order of the problem unless `effort.reorder`. Values
// smaller than `min_bytes` are never evicted. `starts` are schedules to begin with besides those
// of the simulations; those that are not valid or need more than the limit are brought within it or
// left out. Deterministic unless `effort.seconds` is given.
std::optional<Schedule> search_schedule(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes, const SearchEffort& effort,
                                        std::span<const Schedule> starts = {});

}  // namespace plimsoll::planner
