// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/planner/bound/bound_model.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

struct LowerBound {
  // No schedule with these first executions that fits the limit takes less; infinite when none
  // fits.
  double seconds = 0;
  double base_seconds = 0;  // every op once
  // Seconds that one byte more at each time step would save: the prices that prove the bound. 0
  // where everything can be kept.
  std::vector<double> prices;
};

// How hard to try. Work is counted, so that equal inputs give equal bounds.
struct BoundEffort {
  std::int64_t steps = 0;  // some nanoseconds each; 0: by the number of ops
  int rounds = 40;
  int polish_rounds = 100;
  int nodes = 200;                       // of the branch and bound on whole intervals
  std::size_t tight_time_steps = 8'000;  // at most so many time steps have a price
};

// Retention intervals (as in MOCCASIN) in bytes, a linear program that is a flow along the line of
// time steps; its prices then choose, interval by interval, between keeping and recomputing with
// all that must be made for that: a Lagrangian bound, stronger than the linear program. A weaker
// one is returned when the effort runs out.
LowerBound lower_bound(const BoundModel& model, std::int64_t arena_limit,
                       const BoundEffort& effort = {});

// No schedule with these first executions needs less arena.
std::int64_t least_arena_bytes(const BoundModel& model);

// The bound of schedules that only recompute.
double lower_bound_seconds(const Problem& problem, std::int64_t arena_limit);

// The model for all plans of an arranged problem: whatever remedies of `options` they take, and
// whichever callee plans.
BoundModel make_plan_bound_model(const Problem& problem, const PlanOptions& options);

}  // namespace plimsoll::planner
