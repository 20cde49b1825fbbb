// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/planner/local_search.h"
#include "runtime/planner/remat.h"
#include "runtime/planner/search_clock.h"
#include "runtime/planner/walk_search.h"

namespace plimsoll::planner {
namespace {

// Units of SearchClock per op: about a millisecond.
constexpr double kWorkPerOp = 1e6;
constexpr double kWalkShare = 0.7;
// A few walks more, about a hundredth of a millisecond per op.
constexpr double kQuickWorkPerOp = 16'000;
// Problems of few ops are searched several times from the beginning.
constexpr int kSmall = 600;
constexpr int kSearchesOfSmall = 3;
// Bringing a schedule within a lower limit: the share of the limit that a step leaves, how often
// steps may fail, and the search in between.
constexpr double kFitStep = 0.97;
constexpr int kMostFitFailures = 12;
constexpr double kWorkPerFit = 3e4;

// Where no walk gets through: a schedule for more memory, with more given up until it fits.
std::optional<Schedule> from_above(const Problem& problem, LocalSearch& local,
                                   std::int64_t arena_limit, std::int64_t min_bytes,
                                   std::span<const Schedule> starts, SearchClock& clock) {
  std::vector<Schedule> from(starts.begin(), starts.end());
  for (const double more : {1.1, 1.25, 1.5, 2.0}) {
    const auto limit = static_cast<std::int64_t>(more * static_cast<double>(arena_limit));
    if (auto schedule = rematerialize(problem, limit, min_bytes, 0)) {
      from.push_back(std::move(*schedule));
    }
  }
  std::optional<Schedule> best;
  for (Schedule& schedule : from) {
    if (!is_valid(problem, schedule)) continue;
    // In steps, as what is given up for a little may stand in the way of what must be; where a step
    // fails, other schedules for the step before are tried.
    std::int64_t limit = evaluate(problem, schedule).arena_peak;
    for (int failures = 0; limit > arena_limit && failures < kMostFitFailures;) {
      if (clock.done() >= 1) return best;
      if (failures > 0) {
        SearchClock between(static_cast<std::int64_t>(kWorkPerFit * problem.op_count()), 0);
        local.improve(schedule, limit, between);
        clock.spend(static_cast<std::int64_t>(kWorkPerFit * problem.op_count()));
      }
      const std::int64_t next =
          std::max(arena_limit, static_cast<std::int64_t>(kFitStep * static_cast<double>(limit)));
      Schedule lower = schedule;
      if (local.fit(lower, next, clock)) {
        schedule = std::move(lower);
        limit = evaluate(problem, schedule).arena_peak;
      } else {
        ++failures;
      }
    }
    if (limit > arena_limit) continue;
    if (best && total_seconds(problem, schedule) >= total_seconds(problem, *best)) continue;
    best = std::move(schedule);
  }
  return best;
}

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
  if (best && best->size() == ops) return best;
  if (effort.level == SearchEffort::Level::quick) {
    SearchClock clock(static_cast<std::int64_t>(kQuickWorkPerOp * problem.op_count()), 0);
    WalkSearch(problem, min_bytes, arena_limit, 1).run(best, clock);
    return best;
  }

  const double work = kWorkPerOp * effort.scale * problem.op_count();
  const int searches = problem.op_count() <= kSmall && effort.scale >= 1 ? kSearchesOfSmall : 1;
  const double share = 1.0 / searches;
  const auto clock = [&](double part) {
    return SearchClock(static_cast<std::int64_t>(work * share * part),
                       effort.seconds * share * part);
  };
  for (int i = 0; i < searches; ++i) {
    const auto seed = static_cast<std::uint64_t>(i + 1);
    // Only the first goes on from what there is: the others are to find something else.
    std::optional<Schedule> found = i == 0 ? best : std::nullopt;
    SearchClock walk_clock = clock(kWalkShare);
    WalkSearch(problem, min_bytes, arena_limit, seed).run(found, walk_clock);
    LocalSearch local(problem, min_bytes, effort.reorder, seed);
    if (!found && !best && i + 1 == searches) {
      SearchClock fit_clock = clock(searches);
      found = from_above(problem, local, arena_limit, min_bytes, starts, fit_clock);
    }
    if (!found) continue;
    SearchClock local_clock = clock(1 - kWalkShare);
    local.improve(*found, arena_limit, local_clock);
    offer(std::move(*found));
  }
  return best;
}

}  // namespace plimsoll::planner
