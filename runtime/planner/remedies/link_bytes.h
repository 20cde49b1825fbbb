// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// The bytes that can be in other tiers at each time step, whichever values they are of: all of them
// left before it and come back after it, one after another on each link. Entry t is for op t and
// what runs between it and the op before, when every op runs once in `seconds[t]` and
// `more_seconds` are spent beside that, both before and after every time step; one entry per op.
// Tiers without bytes are none.
std::vector<std::int64_t> bytes_in_tiers(std::span<const double> seconds,
                                         const PerTier<Tier>& tiers, double more_seconds);

// A problem under a limit that is higher by `bytes[t]` bytes at op t and what runs between it and
// the op before. It is the problem with a few ops more that take no time, holding bytes where they
// are not the most; bytes are rounded to one in `levels` of that.
struct RelaxedProblem {
  Problem problem;
  IdVector<OpId, OpId> base_of;  // per op of `problem`, the one it is; -1: it holds bytes
  IdVector<OpId, OpId> op_of;    // per op of the base, the one in `problem`
  std::int64_t most = 0;         // add it to the arena limit
};
enum class Rounding : bool { down, up };
RelaxedProblem add_bytes(const Problem& problem, std::span<const std::int64_t> bytes, int levels,
                         Rounding rounding);

}  // namespace plimsoll::planner
