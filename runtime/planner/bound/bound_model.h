// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

using IntervalId = Id<struct IntervalTag>;  // index into BoundModel::intervals
using ShareId = Id<struct ShareTag>;        // index into BoundModel::shares

// Another place or form for a value between two touches than its bytes in the arena: what stays in
// the arena at least, and the time it takes at least, once for the value and for each interval.
struct Substitute {
  ValueId value;
  std::int64_t bytes = 0;
  double seconds_once = 0, seconds_each = 0;
  OpId first_return{0};             // only intervals before this read or a later one
  std::vector<OpId> fused_touches;  // rising: touches of no more than `bytes`, before which no
                                    // interval costs seconds_each
  bool is_fused(OpId op) const {
    return std::binary_search(fused_touches.begin(), fused_touches.end(), op);
  }
};

// What must happen for a storage's bytes to be back: its ops run again, with what they read.
struct Recomputation {
  ValueId storage;
  ShareId share;                 // whose part of the seconds this is
  double seconds = 0;            // of all runs; infinite when an op may not run again
  OpId latest = kNever;          // the last stage in which they may run
  std::int32_t free_until = -1;  // the last time step of the interval that touches the storage
  double paths = 0;  // ways from the interval's own recomputation to this one: each counts a part
  std::int32_t first_need = 0, needs = 0;  // row of BoundModel::needs: of the interval's own
};

// Bytes between two consecutive touches (made, read, wanted at the end) of a storage. Moment t is
// the first run of op t; the bytes lie in the arena at time steps first..last if they are kept. If
// they are not, they are recomputed in some stage s (between time steps s-1 and s), s <= last + 1.
struct Interval {
  ValueId storage;
  std::int32_t first = 0, last = -1;
  std::int64_t bytes = 0;
  // The first makes the storage itself, each other one is read by one before it.
  std::int32_t first_recomputation = 0, recomputations = 0;
  std::int32_t first_substitute = 0, substitutes = 0;  // of BoundModel::substitutes
};

struct IntervalSubstitute {
  std::int64_t bytes = 0;
  double seconds = 0;
};

// Recomputing an interval's storage may need other storages that are not there and have to be
// recomputed as well. The runs and bytes of those count for the interval, but a lower bound must
// count nothing twice: so they are shared out, and a share is the fraction that one interval may
// count.
// - Of a storage that is dead by then (after its last touch): all intervals of the storage `root`
//   have one share together, and the fractions of all shares of one dead storage add up to at most
//   1.
// - Of a living storage, within its interval `interval`: the share covers time steps first..last
//   and in the stages around them; the rest, 1 - fraction, is for that interval itself to count.
struct Share {
  ValueId storage, root;
  double fraction = 0;
  std::int32_t interval = -1;  // of a living storage
  std::int32_t first = 0, last = -1;
};

// A problem as its intervals: everything that every schedule with these first executions pays for.
struct BoundModel {
  int time_steps = 0;
  double base_seconds = 0;  // every op once
  // Bytes that lie in the arena at each time step whatever is evicted: what the op reads and
  // makes, less what it may write in place, and what cannot be recomputed.
  std::vector<std::int64_t> need;
  std::vector<Interval> intervals;  // of what may be evicted
  std::vector<Recomputation> recomputations;
  std::vector<std::int32_t> needs;
  IdVector<ShareId, Share> shares;
  Rows<IntervalId, ShareId> shares_on;  // the shares of others in an interval
  std::vector<IntervalSubstitute> substitutes;
  // Of a storage: its bytes, and what it needs at least to be there in some form.
  IdVector<ValueId, std::int64_t> bytes, least_bytes;
};

// `most_recomputations`: per interval, counting its own.
BoundModel make_bound_model(const Problem& problem, int most_recomputations,
                            std::span<const Substitute> substitutes = {});

}  // namespace plimsoll::planner
