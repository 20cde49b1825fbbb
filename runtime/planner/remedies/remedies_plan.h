// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/remedies.h"

namespace plimsoll::planner {

// A schedule of a problem in which choices were taken.
struct RemedyPlan {
  std::shared_ptr<const Problem> problem;
  IdVector<ValueId, ValueId> origin;  // as of apply_choices
  Schedule schedule;
  double seconds = 0;     // predicted, stalls included
  std::int64_t peak = 0;  // of the arena, by liveness
};

// The fastest plan found within `arena_limit` that compresses or swaps something, with
// recomputation by `recompute` where the options allow it; nothing when none is found. What is
// tried with fewer remedies or tiers is tried with more of them too, so that more of them never
// give a slower plan. `base_seconds`: no plan can be faster; `worth`: no search improves what takes
// more.
std::optional<RemedyPlan> plan_remedies(const Problem& problem, std::span<const Form> forms,
                                        const PlanOptions& options, std::int64_t arena_limit,
                                        double base_seconds, double worth,
                                        const Recomputer& recompute);

}  // namespace plimsoll::planner
