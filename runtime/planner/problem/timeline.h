// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// The transfer engines: each does one transfer at a time, in the order in which they are started,
// beside the compute steps.
constexpr std::int8_t engine_of(MemorySpace tier, bool out) {
  return static_cast<std::int8_t>(link_of(tier, out));
}

// How long a transfer keeps its engine.
double transfer_seconds(const Tier& tier, std::int64_t bytes, double bytes_per_second);

// What a transfer takes: of its engine, and of the compute steps. A synchronous one is made by
// their own threads when it is started, and is over then: it keeps no engine.
struct TransferTime {
  double engine_seconds = 0, taken_seconds = 0;
  bool synchronous = false;
};
TransferTime time_transfer(const Tier& tier, std::int64_t bytes, bool out, bool synchronous);
// By the way that had better be taken.
TransferTime time_transfer(const Tier& tier, std::int64_t bytes, bool out);

// How long the upload of a constant or parameter, and the download of a result, take: a copy that
// steps wait for, over the link of `host`.
double upload_seconds(std::int64_t bytes, const Tier& host);
double download_seconds(std::int64_t bytes, const Tier& host);

// How long a loop takes whose rounds wait for slices of its residuals: what `callee_seconds` is all
// its rounds' work, copies in and out go on beside it, a round ahead and behind.
double sliced_seconds(const SlicedLoop& loop, double callee_seconds);
// Adds the transfers of one more residual, on tier `where`, to each round.
void add_transfers(SlicedLoop& loop, const SlicedState& state, MemorySpace where,
                   const PerTier<Tier>& tiers);

// When everything happens if every step takes its predicted time. Steps run one after another;
// starting a transfer takes of their time only what it will slow them down by, a swap_wait lasts
// until its transfer is over.
struct Timeline {
  double seconds = 0;  // of the whole schedule
  double stalled = 0;  // of that, in swap_waits
  // Per position: when it starts; for a transfer, when that ends; for the wait, how long it lasts.
  std::vector<double> start, transfer_end, stall;
};
Timeline simulate(const Problem& problem, std::span<const OpId> schedule);

// The predicted time of a schedule: its compute steps, added up in an order that does not depend on
// the schedule's, and its stalls.
double predicted_seconds(const Problem& problem, std::span<const OpId> schedule);

}  // namespace plimsoll::planner
