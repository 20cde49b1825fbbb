// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::planner {

struct GreedyOptions {
  std::int64_t limit_bytes = 0;
  std::int64_t min_bytes = 0;          // smaller values are no candidates
  int block_size_limit = 1;            // longest run of instructions recomputed as one
  std::int64_t tuple_entry_bytes = 8;  // a tuple table's cost per element
};

struct GreedyReport {
  bool changed = false;
  std::int64_t peak_before = 0, peak_after = 0;  // outputs included
  std::int64_t rematerialized = 0, net_added = 0;
};

// The baseline policy: one pass over the schedule that clones already-placed values before their
// later uses while usage is above the limit (the behaviour of XLA's rematerialization pass). Blind
// to time and addresses. That pass's other mode, copies in a compact layout, has nothing to gain
// here: buffers are dense whatever their layout says. Runs on a scheduled module and keeps it
// scheduled; may leave it above the limit.
Result<GreedyReport> rematerialize_greedy(ir::Module& module, const GreedyOptions& options);

}  // namespace plimsoll::planner
