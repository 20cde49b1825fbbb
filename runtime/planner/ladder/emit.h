// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// Turns a schedule into steps, buffers and addresses. Sums and times are filled in; limits,
// constants of callees and the policy's name are the caller's. `enough`: no need to pack the arena
// tighter than this many bytes (PackOptions::enough). `pack_effort`: PackOptions::effort.
Plan emit_plan(const Problem& problem, std::span<const OpId> schedule, std::int64_t enough,
               double pack_effort = 1);

// What such a plan's arena takes by liveness: evaluate()'s peak, less what results' buffers take in
// before they are made (lend_results.h).
std::int64_t arena_live_bytes(const Problem& problem, std::span<const OpId> schedule);

}  // namespace plimsoll::planner
