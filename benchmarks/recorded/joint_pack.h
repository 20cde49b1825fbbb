// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime/planner/pack/pack.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remat/search.h"

namespace plimsoll::planner {

// The height that a schedule's buffers were packed to, and at which of its positions, [first,
// last), something ended above the limit.
struct AddressCheck {
  std::int64_t height = 0;
  std::vector<std::pair<std::int32_t, std::int32_t>> over;
};

// Packs what a schedule keeps. `rounds_left` says how many calls may follow: the last ones deserve
// more work.
using CheckAddresses = std::function<AddressCheck(const Schedule& schedule, int rounds_left)>;

// Changes `start`, whose bytes fit under `arena_limit` but maybe not at addresses, until they do:
// where buffers end above the limit, less may live at once, so that values are evicted there that
// were kept. What then fits is made faster again as long as it packs. Nothing when `rounds` checks
// were not enough. What packing means is the caller's, who checks addresses.
std::optional<Schedule> fit_addresses(const Problem& problem, Schedule start,
                                      std::int64_t arena_limit, std::int64_t min_bytes,
                                      const CheckAddresses& check, int rounds);

// One life per output of each execution, in the order of Liveness::first_output; what does not lie
// in the arena takes no bytes. Positions are times. Behind them, the workspaces. Without in-place
// reuse.
std::vector<Lifetime> residencies(const Problem& problem, std::span<const OpId> schedule);

struct AddressedSchedule {
  Schedule schedule;
  Packing packing;  // of its residencies
};

// As search_schedule, with the limit counted in addresses: the packing of all residencies is not
// higher than `arena_limit`. Nothing when none is found.
std::optional<AddressedSchedule> search_addressed_schedule(const Problem& problem,
                                                           std::int64_t arena_limit,
                                                           std::int64_t min_bytes,
                                                           std::int64_t alignment,
                                                           const SearchEffort& effort);

}  // namespace plimsoll::planner
