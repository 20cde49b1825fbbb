// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "benchmarks/recorded/recorded_step.h"
#include "runtime/planner/problem/schedule.h"

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
  bool fits = false;                     // else the rest says how far it does not
  std::int64_t nanoseconds = 0;          // waiting included
  std::int64_t stalled_nanoseconds = 0;  // of waiting
  std::int64_t peak_bytes = 0;           // constants included
  std::int64_t swapped_bytes = 0;        // copied out
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

// A storage that lies idle: made at position `made` of a schedule, touched last at `from` and next
// at `to`.
struct IdleStorage {
  ValueId value;
  std::int32_t made = 0, from = 0, to = 0;
};

// That such a storage is to be elsewhere meanwhile.
struct AwayStorage {
  IdleStorage idle;
  std::int32_t first = 0;  // the position from which on it is expected to be away
  // When its copy out is planned to start, for the order; infinite: there is one already.
  double out_start = std::numeric_limits<double>::infinity();
  double in_start = 0;
};

// What a copy keeps the link: latency and bytes in whole nanoseconds, parts rounded up.
std::int64_t copy_nanoseconds(std::int64_t bytes, double bytes_per_second, const Tier& tier);

// The actions of a schedule of `step.problem` and what they take. Copies out start in the order
// planned, as soon as their storage is made and the tier has room, and are waited for when they are
// over or their bytes are needed; copies in start in the order in which they are wanted, as soon as
// their bytes fit up to then. A copy keeps the tier's bytes from the start of the copy out to the
// end of the last copy in of it. `away` must hold at most one copy out per storage, and nothing
// that comes back before it.
CoveredSchedule play_copies(const RecordedStep& step, std::span<const OpId> schedule,
                            std::int64_t limit_bytes, const Tier& tier,
                            std::vector<AwayStorage> away);

}  // namespace plimsoll::planner
