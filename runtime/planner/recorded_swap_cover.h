// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/recorded_step.h"

namespace plimsoll::planner {

// One action of a schedule with copies.
struct CopyAction {
  enum class Kind : char { run = 'c', free = 'f', copy_out = 'o', copy_in = 'i', wait = 'w' };
  Kind kind = Kind::run;
  std::int32_t target = 0;  // an op for `run`, else a storage
};

// A schedule of a recorded step in which storages go to another tier and come back.
struct CoveredSchedule {
  std::vector<CopyAction> actions;
  bool fits = false;             // else the rest says how far it does not
  std::int64_t nanoseconds = 0;  // waiting included
  std::int64_t stalled_nanoseconds = 0;
  std::int64_t peak_bytes = 0;     // constants included
  std::int64_t swapped_bytes = 0;  // copied out
  std::int64_t tier_peak_bytes = 0;
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

// Brings a schedule of `step.problem` under `limit_bytes` (constants included) by copying: idle
// storages leave as soon as the link is free and come back, in the order in which they are wanted,
// as early as memory allows. Those that take the most off what is over the limit by the link's time
// are taken first, where possible such that no op has to wait for them. Any number of copies in are
// made of one copy out. A copy keeps the tier's bytes from the start of the copy out to the end of
// its last copy in; the link takes whole nanoseconds, parts rounded up. Where ops wait, up to
// `tries` other choices are tried.
CoveredSchedule cover_by_copies(const RecordedStep& step, std::span<const OpId> schedule,
                                std::int64_t limit_bytes, const Tier& tier, int tries);

}  // namespace plimsoll::planner
