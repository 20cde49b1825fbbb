// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// Constants that need not stay on the device: their values lie in host memory all the time (in a
// mapped file, mostly), so that what is freed can be uploaded again.

// The constants of an entry's problem that may come and go, of `least_bytes` or more each.
std::vector<ValueId> find_streamable(const Problem& problem, std::int64_t least_bytes);

// The problem in which these constants are arena values, each made by an upload right before the
// first op that reads it, at the price of a copy over `host`'s link, and made again by the same
// upload if it is evicted. What they take is no part of constant_bytes any more. Values keep their
// numbers, ops do not.
Problem stream_constants(const Problem& problem, std::span<const ValueId> constants,
                         const Tier& host);

// The same with uploads that take no time: no plan of the problem, whichever constants it streams,
// is better than the best of this one.
Problem relax_constants(const Problem& problem, std::span<const ValueId> constants);

struct Settled {
  Problem problem;
  Schedule schedule;
};
// Of a problem whose constants are streamed: as many of them as fit stay on the device, those first
// whose uploads take longest by the byte, as long as the schedule does not get faster than
// `least_seconds`. The arena and the constants that stay take `limit` at most, which `schedule`
// must keep. Nothing when none can stay.
std::optional<Settled> settle_constants(const Problem& problem, const Schedule& schedule,
                                        std::span<const ValueId> constants, std::int64_t limit,
                                        double least_seconds);

}  // namespace plimsoll::planner
