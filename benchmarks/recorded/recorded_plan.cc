// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_plan.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/byte_size.h"
#include "runtime/planner/baselines/baselines.h"
#include "runtime/planner/bound/bound.h"
#include "runtime/planner/order/search_orders.h"
#include "runtime/planner/remat/remat.h"

namespace plimsoll::planner {
namespace {

// Smaller steps are searched as long as one of so many ops.
constexpr double kLeastOps = 1000;

Result<std::optional<Schedule>> find_schedule(const Problem& problem, const Schedule& once,
                                              std::int64_t arena_limit, const SearchEffort& effort,
                                              Policy policy, std::span<const Schedule> starts) {
  switch (policy) {
    case Policy::none:
      if (evaluate(problem, once).arena_peak > arena_limit) return std::optional<Schedule>();
      return std::optional<Schedule>(once);
    case Policy::sqrt:
      return checkpoint_sqrt(problem, arena_limit, 0);
    case Policy::greedy:
      return unimplemented("planner greedy: recorded steps are planned by default, sqrt or none");
    default: {
      // Half a second is not too much for a small step.
      SearchEffort more = effort;
      more.scale *= std::max(1.0, kLeastOps / problem.op_count());
      return search_schedule(problem, arena_limit, 0, more, starts);
    }
  }
}

}  // namespace

Result<RecordedPlan> plan_recorded_step(const RecordedStep& step, std::int64_t limit_bytes,
                                        const SearchEffort& effort, Policy policy,
                                        std::span<const Schedule> starts) {
  const auto start = std::chrono::steady_clock::now();
  const Problem& problem = step.problem;
  Schedule once = each_once(problem);
  RecordedPlan plan;
  plan.limit_bytes = limit_bytes;
  plan.unlimited_peak_bytes = recorded_cost(step, once).peak_bytes;
  plan.unlimited_seconds = static_cast<double>(step.total_nanoseconds) * 1e-9;
  std::optional<Schedule> schedule;
  if (limit_bytes >= problem.parameter_bytes) {
    const std::int64_t arena_limit = limit_bytes - problem.parameter_bytes;
    PLIMSOLL_ASSIGN_OR_RETURN(schedule,
                              find_schedule(problem, once, arena_limit, effort, policy, starts));
  }
  if (!schedule) {
    return Status::resource_exhausted(
        "recorded step: no schedule found under " + format_bytes(limit_bytes) +
            " (constants take " + format_bytes(problem.parameter_bytes) + ", all kept needs " +
            format_bytes(plan.unlimited_peak_bytes) + ")",
        {limit_bytes, 0, ""});
  }
  const RecordedCost cost = recorded_cost(step, *schedule);
  plan.schedule = std::move(*schedule);
  plan.peak_bytes = cost.peak_bytes;
  plan.predicted_seconds = static_cast<double>(cost.nanoseconds) * 1e-9;
  if (step.total_nanoseconds > 0) {
    plan.overhead = 100.0 * static_cast<double>(cost.nanoseconds - step.total_nanoseconds) /
                    static_cast<double>(step.total_nanoseconds);
  }
  plan.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  plan.lower_bound_seconds = plan.unlimited_seconds;
  // Bounds are for the plan's own order, and take longer than quick plans.
  if (cost.nanoseconds > step.total_nanoseconds && effort.level != SearchEffort::Level::quick) {
    const Problem in_order = reordered(problem, order_of_first_runs(problem, plan.schedule));
    plan.lower_bound_seconds = lower_bound_seconds(in_order, limit_bytes - problem.parameter_bytes);
  }
  return plan;
}

}  // namespace plimsoll::planner
