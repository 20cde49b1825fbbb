// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/planner/remedies/swap_model.h"
#include "runtime/planner/remedies/swap_play.h"

namespace plimsoll::planner {

// Brings a schedule of the model's problem under its limit by copying values while they lie idle.
// Those that take the most off what is over the limit by the links' time are taken first, where
// possible such that no op has to wait for them. Where some do, up to `tries` other choices are
// tried, the same every time. Any number of copies in are made of one copy out. `may_hurry`: copies
// out that ops wait for may go before others.
CoveredSchedule cover_by_copies(const SwapModel& model, std::span<const OpId> schedule, int tries,
                                bool may_hurry);

}  // namespace plimsoll::planner
