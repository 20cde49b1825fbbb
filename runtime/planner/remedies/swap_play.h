// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/swap_model.h"

namespace plimsoll::planner {

// One action of a schedule with copies.
struct SwapAction {
  enum class Kind : std::uint8_t { run, evict, copy_out, copy_in, wait };
  Kind kind = Kind::run;
  OpId op;                       // run
  ValueId value;                 // else
  const SwapWay* way = nullptr;  // else; null for what is only evicted
};

// A schedule in which values go to other tiers and come back. Times in nanoseconds.
struct CoveredSchedule {
  std::vector<SwapAction> actions;
  bool fits = false;               // else the rest says how far it does not
  double nanoseconds = 0;          // waiting included
  double stalled = 0;              // of waiting
  std::int64_t peak_bytes = 0;     // of the arena
  std::int64_t swapped_bytes = 0;  // copied out
  PerTier<std::int64_t> tier_peak;
  std::int64_t most_over = 0;  // bytes over the limit
  // Per op: the bytes over the limit, or of what is waited for, at it or at what runs between it
  // and the op before.
  std::vector<std::int64_t> over;

  // Fits better, or is faster.
  bool before(const CoveredSchedule& other) const {
    if (fits != other.fits) return fits;
    if (!fits && most_over != other.most_over) return most_over < other.most_over;
    return nanoseconds < other.nanoseconds;
  }
};

// A value during a retention interval: made at position `made` of a schedule, touched last at
// `from` and next at `to`.
struct IdleValue {
  ValueId value;
  std::int32_t made = 0, from = 0, to = 0;
  // Bytes of a result that op `from` writes over it where it has left by then.
  std::int64_t written_over = 0;
};

// That such a value is to be elsewhere meanwhile.
struct AwayValue {
  IdleValue idle;
  const SwapWay* way = nullptr;
  std::int32_t first = 0;  // the position from which on it is expected to be away
  // When its copy out is planned to start, for the order; infinite: there is one already.
  double out_start = kInfinite;
  double in_start = 0;
};

// The actions of a schedule of the model's problem and what they take. Copies out start in the
// order planned, as soon as their value is made and the tier has room, and are waited for when they
// are over or their bytes are needed; copies in start in the order in which they are wanted, as
// soon as their bytes fit up to then. A copy keeps the tier's bytes from the start of the copy out
// to the end of the last copy in of it. `away` must hold at most one copy out per value, and
// nothing that comes back before it.
CoveredSchedule play_copies(const SwapModel& model, std::span<const OpId> schedule,
                            std::vector<AwayValue> away);

}  // namespace plimsoll::planner
