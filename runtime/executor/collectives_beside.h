// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/executor/launch_order.h"
#include "runtime/planner/plan.h"

namespace plimsoll::executor {

// Which of a plan's collectives go on while the launches after them run, and how far. Per launch of
// a LaunchOrder.
struct CollectivesBeside {
  std::vector<char> goes_on;        // begins there, and is not waited for
  std::vector<char> meets;          // comes to others itself: what goes on must be over
  std::vector<std::int32_t> waits;  // how many of the plan's that go on must be over before
};

// A collective is as good as a pair of a start half, where the plan has it, and a done half as late
// as the plan's memory lets it be: before the first launch that reads or writes a byte of its
// results, or writes one of its operands, at the addresses that the plan gives them. So a plan
// needs no more memory for it, and a tight one, which uses memory again at once, has less to do
// meanwhile. Those that go on are done in the plan's order, one after the other, which all
// participants share, and before any other step that meets others.
//
// Only where the launches meanwhile touch `least_bytes` at least: less takes no longer than handing
// the work to another thread. 0: none goes on.
CollectivesBeside find_collectives_beside(const planner::Plan& plan, const LaunchOrder& order,
                                          std::int64_t least_bytes);

}  // namespace plimsoll::executor
