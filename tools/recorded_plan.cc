// SPDX-License-Identifier: Apache-2.0
#include "tools/recorded_plan.h"

#include <cstdio>
#include <fstream>

#include "runtime/base/byte_size.h"
#include "runtime/base/file.h"
#include "runtime/planner/joint_pack_recorded.h"
#include "runtime/planner/recorded_plan.h"
#include "tools/program_file.h"

namespace plimsoll::tools {

void add_recorded_plan_flags(CLI::App* command, RecordedPlanFlags& flags) {
  command->add_option("--schedule", flags.schedule,
                      "File that gets the actions of a recorded step's plan, one a line");
  command->add_flag("--addresses", flags.addresses,
                    "Recorded steps: count the limit in addresses, and write where storages lie");
}

bool holds_recorded_step(const std::string& path) {
  if (path == "-") return false;
  std::ifstream file(path, std::ios::binary);
  char begin[256];
  file.read(begin, sizeof begin);
  const std::string_view text(begin, static_cast<std::size_t>(file.gcount()));
  return text.find('\n') != std::string_view::npos && planner::is_recorded_step(text);
}

Outcome plan_recorded(const std::string& path, const PlanFlags& plan_flags,
                      const RecordedPlanFlags& flags, Output& output) {
  const auto text = read_file(path);
  PLIMSOLL_CALL_FAULT(text.status());
  const auto step = planner::parse_recorded_step(*text, path);
  PLIMSOLL_PROGRAM_FAULT(step.status());
  planner::PlanOptions options;
  const Outcome outcome = plan_options(
      plan_flags, [&](const planner::PlanOptions&) -> Result<std::int64_t> { return step->unlimited_peak; },
      options);
  if (!outcome.ok()) return outcome;
  planner::SearchEffort effort;
  effort.seconds = options.planning_seconds;
  std::string schedule_text;
  const auto plan = [&]() -> Result<planner::RecordedPlan> {
    if (!flags.addresses) {
      auto found = planner::plan_recorded_step(*step, options.limit_bytes, effort, options.policy);
      if (found.ok()) schedule_text = planner::schedule_text(*step, found->schedule);
      return found;
    }
    if (options.policy != planner::Policy::default_) {
      return unimplemented("--addresses: only --planner default counts a limit in addresses");
    }
    auto found = planner::plan_recorded_step_in_addresses(*step, options.limit_bytes, effort);
    if (!found.ok()) return found.status();
    schedule_text = planner::addressed_schedule_text(*step, *found);
    return std::move(found->plan);
  }();
  PLIMSOLL_PROGRAM_FAULT(plan.status());
  const auto executions = static_cast<std::int64_t>(plan->schedule.size());
  output.json = {
      {"limit_bytes", limit_json(plan->limit_bytes)},
      {"peak_bytes", plan->peak_bytes},
      {"unlimited_peak_bytes", plan->unlimited_peak_bytes},
      {"predicted_seconds", plan->predicted_seconds},
      {"unlimited_seconds", plan->unlimited_seconds},
      {"lower_bound_seconds", plan->lower_bound_seconds},
      {"overhead", plan->overhead},
      {"planning_seconds", plan->planning_seconds},
      {"steps",
       {{"compute", step->op_count}, {"recompute", executions - step->problem.op_count()}}}};
  char line[400];
  std::snprintf(line, sizeof line,
                "Recorded step %s\n"
                "  peak              %s of %s unlimited\n"
                "  predicted         %.6g s, %.3f %% more than unlimited\n"
                "  at least          %.6g s\n"
                "  recomputations    %lld\n"
                "  planned in        %.3f s\n",
                path.c_str(), format_bytes(plan->peak_bytes).c_str(),
                format_bytes(plan->unlimited_peak_bytes).c_str(), plan->predicted_seconds,
                plan->overhead, plan->lower_bound_seconds,
                static_cast<long long>(executions - step->problem.op_count()),
                plan->planning_seconds);
  output.text = line;
  if (flags.schedule.empty()) return {};
  return write_file(flags.schedule, schedule_text);
}

}  // namespace plimsoll::tools
