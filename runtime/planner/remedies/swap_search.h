// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/swap_model.h"
#include "runtime/planner/remedies/swap_play.h"

namespace plimsoll::planner {

enum class SwapEffort : std::uint8_t {
  brief,     // about ten quick searches by recomputation, and three longer ones
  quick,     // up to about a hundred quick ones
  thorough,  // and a few long ones
};

// The fastest schedule found within the model's limit that recomputes and copies. What can be
// elsewhere at a time step does not depend on what it is: first schedules are searched that only
// recompute, under a limit that is higher at every time step by what the links can have taken away
// by then (bytes_in_tiers), then their idle values are copied to bring them under the limit
// (cover_by_copies). How much of what the links can take is counted on is what is searched. Nothing
// when none is found. `starts`: schedules to begin with, whether they are within the limit or not.
// Without `recompute` only those are covered.
std::optional<CoveredSchedule> search_swaps(const SwapModel& model, SwapEffort effort,
                                            const Recomputer& recompute,
                                            std::span<const Schedule> starts);

}  // namespace plimsoll::planner
