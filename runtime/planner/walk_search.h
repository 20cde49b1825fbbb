// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/planner/evaluate.h"
#include "runtime/planner/problem.h"
#include "runtime/planner/random_bits.h"
#include "runtime/planner/search_clock.h"
#include "runtime/planner/walk.h"

namespace plimsoll::planner {

// Searches among the walks: every value's price has a factor, and factors are changed, of values
// alone, of all values alike (repeated layers), of all in a stretch of the order, and kept when the
// walk's schedule is not slower.
class WalkSearch {
 public:
  WalkSearch(const Problem& problem, std::int64_t min_bytes, std::int64_t arena_limit,
             std::uint64_t seed);

  // Until the clock says 1. `best` may be empty: then the first thing is to find any that fits.
  void run(std::optional<Schedule>& best, SearchClock& clock);

 private:
  WalkStyle first_style(int i) const;
  WalkStyle changed(const WalkStyle& from);
  void change_weights(std::vector<double>& weight);

  const Problem& problem_;
  const std::int64_t arena_limit_;
  RandomBits random_;
  Walk walk_;
  // Values of equal bytes, made in equal time.
  std::vector<std::int32_t> kind_;
  std::int32_t kinds_ = 0;
};

}  // namespace plimsoll::planner
