// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// One per row of policies.def: what the policy makes of the problem under `arena_limit`, without
// recomputing values of less than `min_bytes`; nothing where that does not fit by exact liveness.
//   greedy_schedule  what XLA's pass does (greedy_pass.h), its clones taken as executions of the
//                    ops they go back to. The problem must be arranged in textual order.
//   checkpoint_sqrt  keeps every sqrt(n)-th result along the order and recomputes the others from
//                    them (Chen et al., "Training deep nets with sublinear memory cost", 2016).
#define PLIMSOLL_POLICY(enumerator, name, schedule)                                  \
  std::optional<Schedule> schedule(const Problem& problem, std::int64_t arena_limit, \
                                   std::int64_t min_bytes);
#include "runtime/planner/policies.def"
#undef PLIMSOLL_POLICY

}  // namespace plimsoll::planner
