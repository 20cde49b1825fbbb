// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/random_bits.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remat/eviction_simulation.h"
#include "runtime/planner/remat/improve.h"
#include "runtime/planner/remat/search_clock.h"

namespace plimsoll::planner {

// Searches among the simulations: every value's price has a factor, and factors are changed, of
// values alone, of all values alike (repeated layers), of all in a stretch of the order, and kept
// when the simulation's schedule is not slower.
class WeightSearch {
 public:
  // `prices` per byte at each time step guide the simulations that weigh intervals; none: by what
  // keeping everything is over the limit.
  WeightSearch(const Problem& problem, std::int64_t min_bytes, std::int64_t arena_limit,
               std::uint64_t seed, std::span<const double> prices = {});

  // Until the clock says 1; another call goes on from there. `best` may be empty: then the first
  // thing is to find any that fits.
  void run(std::optional<Schedule>& best, SearchClock& clock);

 private:
  SimulationStyle first_style(int i) const;
  SimulationStyle changed(const SimulationStyle& from);
  void change_weights(IdVector<ValueId, double>& weight);
  void list_candidates(std::span<const std::int64_t> profile);

  const Problem& problem_;
  const std::int64_t arena_limit_;
  RandomBits random_;
  EvictionSimulation simulation_;
  KeepingBack keeping_;
  // Values of equal bytes, made in equal time.
  IdVector<ValueId, std::int32_t> kind_;
  std::int32_t kinds_ = 0;
  // Values that matter: large, and alive where there is too little room.
  std::vector<ValueId> candidates_;
  const double few_share_;  // of changes are of a few of them

  double once_seconds_ = 0;  // of every op once

  int simulations_ = 0;
  SimulationStyle current_;
  double current_seconds_ = std::numeric_limits<double>::infinity();
  OpId reached_{0};
};

}  // namespace plimsoll::planner
