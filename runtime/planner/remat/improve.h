// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remat/schedule_editor.h"

namespace plimsoll::planner {

// Takes out executions whose results nobody reads before they are recomputed.
void drop_unread(const Problem& problem, Schedule& schedule);

// Turns recomputations back into kept values, of one schedule of the problem after the other.
class KeepingBack {
 public:
  explicit KeepingBack(const Problem& problem);

  // Wherever the exact profile stays within `arena_limit`, dearest seconds per byte and position
  // first, as long as that does not make it faster than `least_seconds`. `schedule` must itself
  // fit.
  void run(Schedule& schedule, std::int64_t arena_limit, double least_seconds);

 private:
  bool remove_all_that_fit();
  double price(std::int32_t slot) const;
  std::int32_t first_freed(std::int32_t slot);
  bool is_surely_too_high(std::int32_t slot);
  bool remove_if_it_fits(std::int32_t slot);
  bool slow_enough() const;

  const Problem& problem_;
  ScheduleEditor editor_;
  std::int64_t limit_ = 0;
  double least_seconds_ = 0;
  std::int64_t changes_left_ = 0;
  std::vector<std::int32_t> gone_;  // slots, of first_freed()
};

}  // namespace plimsoll::planner
