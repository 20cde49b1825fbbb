// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/memory/budget/budget.h"
#include "runtime/memory/tiers/tier.h"
#include "runtime/planner/planner.h"
#include "runtime/program/program.h"

namespace plimsoll::executor {

// A tier as the planner sees it, at its speed (measured now if it never was).
planner::Tier describe(memory::Tier& tier);
// `options` with what it leaves open: the budget's limit where that is lower, its tiers, the
// parameters' residency.
planner::PlanOptions complete_options(const planner::PlanOptions& options, const Program& program,
                                      const memory::Budget& budget);
// The same, but for the limit.
planner::PlanOptions complete_places(const planner::PlanOptions& options, const Program& program,
                                     const memory::Budget& budget);

}  // namespace plimsoll::executor
