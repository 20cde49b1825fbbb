// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/memory/tiers.h"
#include "runtime/planner/planner.h"

namespace plimsoll::executor {

// A tier as the planner sees it, at its speed (measured now if it never was).
planner::Tier describe(memory::Tier& tier);

// The machine of plans whose runs use these tiers.
planner::Machine machine_of(const memory::Tiers& tiers);

}  // namespace plimsoll::executor
