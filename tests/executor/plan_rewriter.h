// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/planner/plan.h"

namespace plimsoll::testing {

struct RewriteOptions {
  double share = 0.5;  // of the intervals that could be taken
  bool compress = true, host = true, disk = true;
  bool synchronous = false;  // copies to and from the host by the threads of kernels
};

// `plan` with some of its values encoded, or swapped out, between two of their uses, drawn from
// `seed`, callees' plans included. What comes back lies in a buffer of its own, so that a step that
// does not do its work cannot go unseen. Not made to save memory: the peak is what it becomes.
planner::Plan rewrite_plan(const planner::Plan& plan, std::uint64_t seed,
                           const RewriteOptions& options = {});

}  // namespace plimsoll::testing
