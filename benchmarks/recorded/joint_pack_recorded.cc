// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/joint_pack_recorded.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "runtime/base/byte_size.h"
#include "runtime/planner/bound/bound.h"

namespace plimsoll::planner {

Result<AddressedRecordedPlan> plan_recorded_step_in_addresses(const RecordedStep& step,
                                                              std::int64_t limit_bytes,
                                                              const SearchEffort& effort) {
  const auto start = std::chrono::steady_clock::now();
  const Problem& problem = step.problem;
  Schedule once = each_once(problem);
  const std::int64_t arena_limit = limit_bytes - problem.parameter_bytes;
  std::optional<AddressedSchedule> found;
  if (arena_limit >= 0) found = search_addressed_schedule(problem, arena_limit, 0, 1, effort);
  if (!found) {
    return Status::resource_exhausted("recorded step: no schedule found that packs under " +
                                          format_bytes(limit_bytes) + " (constants take " +
                                          format_bytes(problem.parameter_bytes) + ")",
                                      {limit_bytes, 0, ""});
  }
  AddressedRecordedPlan result;
  result.packing = std::move(found->packing);
  RecordedPlan& plan = result.plan;
  const std::int64_t nanoseconds = recorded_cost(step, found->schedule).nanoseconds;
  plan.schedule = std::move(found->schedule);
  plan.limit_bytes = limit_bytes;
  plan.peak_bytes = problem.parameter_bytes + result.packing.height;
  plan.unlimited_peak_bytes = recorded_cost(step, once).peak_bytes;
  plan.unlimited_seconds = static_cast<double>(step.total_nanoseconds) * 1e-9;
  plan.predicted_seconds = static_cast<double>(nanoseconds) * 1e-9;
  if (step.total_nanoseconds > 0) {
    plan.overhead = 100.0 * static_cast<double>(nanoseconds - step.total_nanoseconds) /
                    static_cast<double>(step.total_nanoseconds);
  }
  plan.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  plan.lower_bound_seconds = plan.unlimited_seconds;
  if (nanoseconds > step.total_nanoseconds) {
    plan.lower_bound_seconds = lower_bound_seconds(problem, arena_limit);
  }
  return result;
}

std::string addressed_schedule_text(const RecordedStep& step, const AddressedRecordedPlan& plan) {
  const Problem& problem = step.problem;
  const Schedule& schedule = plan.plan.schedule;
  const Liveness liveness = find_liveness(problem, schedule);
  const std::string bare = schedule_text(step, schedule);
  std::string text;
  std::size_t t = 0;
  for (std::string_view rest = bare; !rest.empty();) {
    const auto end = rest.find('\n');
    text += rest.substr(0, end);
    if (rest.front() == 'c') {
      while (!step.is_recorded(schedule[t])) ++t;
      std::int32_t slot = liveness.first_output[t];
      for (const ValueId v : problem.outputs[schedule[t]]) {
        if (v >= 0 && step.is_storage(v) && problem.in_arena(v)) {
          text += " " + std::to_string(v.value()) + "@" +
                  std::to_string(plan.packing.offsets[at(slot)]);
        }
        ++slot;
      }
      ++t;
    }
    text += "\n";
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return text;
}

}  // namespace plimsoll::planner
