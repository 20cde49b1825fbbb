// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/planner/plan.h"

namespace plimsoll::planner {

// Per step of `plan`, the bytes it touches that are not in a cache of `cache_bytes` which keeps
// what was touched last (LRU, in blocks of a thousandth of it), when the plan runs again and again.
// Transfers take part: on a host device they go through the same caches. What callees touch within
// their workspace counts as touched once. All zero for a cache of no bytes.
IdVector<StepId, double> missed_bytes(const Plan& plan, double cache_bytes);

}  // namespace plimsoll::planner
