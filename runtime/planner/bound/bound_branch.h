// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "runtime/planner/bound/bound_pricing.h"
#include "runtime/planner/flow/line_flow.h"

namespace plimsoll::planner {

// Extra seconds that every schedule within the limit takes, at least root.value: intervals are kept
// or evicted as a whole, so each of the two is assumed in turn where the linear program wants a
// part, and the weaker of the two bounds counts; best first, at most `nodes` times and about
// `steps` steps. `interval_of` is the interval of each of the line's stretches.
double branch_on_intervals(BoundPricing& pricing, LinePrices& line,
                           std::span<const std::size_t> interval_of, const BoundModel& model,
                           const BoundProof& root, int nodes, std::int64_t steps);

}  // namespace plimsoll::planner
