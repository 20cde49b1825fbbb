// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/recorded_plan.h"

#include <fmt/core.h>
#include <algorithm>

#include "benchmarks/recorded/joint_pack_recorded.h"
#include "benchmarks/recorded/recorded_plan.h"
#include "benchmarks/recorded/recorded_swap.h"
#include "runtime/base/byte_size.h"
#include "runtime/planner/plan_json.h"

namespace plimsoll::tools {

void add_recorded_plan_flags(CLI::App* command, RecordedPlanFlags& flags) {
  command->add_option("--schedule", flags.schedule,
                      "File that gets the actions of a recorded step's plan, one a line");
  command->add_flag("--addresses", flags.addresses,
                    "Recorded steps: count the limit in addresses, and write where storages lie");
  command->add_flag("--keep-order", flags.keep_order,
                    "Recorded steps: let ops run for the first time in the recorded order alone");
}

Outcome not_for(const std::string& what, const std::string& flag) {
  return Outcome::call_fault(invalid_argument(flag + ": has no meaning for " + what));
}

namespace {

// The status with the lowest limit that a few quick searches find a schedule for.
Status with_working_limit(const planner::RecordedStep& step, std::int64_t refused,
                          const Status& status) {
  planner::SearchEffort quick;
  quick.level = planner::SearchEffort::Level::quick;
  std::int64_t works = 0, fails = refused;
  std::int64_t trial = step.unlimited_peak + step.unlimited_peak / 64;
  for (int i = 0; i < 12 && trial > fails; ++i) {
    const auto plan = planner::plan_recorded_step(step, trial, quick);
    if (plan.ok()) {
      works = trial;
    } else {
      fails = trial;
      if (works == 0) break;
    }
    trial = fails + (works - fails) / 2;
  }
  if (works == 0) return status;
  return Status::resource_exhausted(
      fmt::format("{}; {} bytes do, and a longer search may find less", status.message(), works),
      {refused, works, "no schedule found below it"});
}

}  // namespace

Outcome plan_recorded(const InputFile& input, const PlanFlags& plan_flags,
                      const RecordedPlanFlags& flags, Output& output) {
  const bool swaps_asked = plan_flags.link_speed.has_value();
  const char* misplaced =
      plan_flags.remedies                     ? "--remedies"
      : plan_flags.min_size                   ? "--min-size"
      : plan_flags.spill_dir                  ? "--spill-dir"
      : plan_flags.spill_limit                ? "--spill-limit"
      : plan_flags.host_limit && !swaps_asked ? "--host-limit without --link-speed"
      : flags.addresses && swaps_asked        ? "--addresses together with --link-speed"
                                              : nullptr;
  if (misplaced != nullptr) return not_for("recorded steps", misplaced);
  const auto step = planner::parse_recorded_step(input.text, input.name);
  PLIMSOLL_PROGRAM_FAULT(step.status());
  planner::PlanPolicy policy;
  Outcome outcome = read_policy(plan_flags, policy);
  if (!outcome.ok()) return outcome;
  std::int64_t limit = 0;
  outcome =
      read_limit(plan_flags, [&]() -> Result<std::int64_t> { return step->unlimited_peak; }, limit);
  if (!outcome.ok()) return outcome;
  planner::Tier host;
  planner::SearchEffort effort;
  effort.seconds = policy.planning_seconds;
  effort.reorder = !flags.keep_order && !swaps_asked;
  std::string schedule_text;
  std::int64_t swapped_bytes = 0;
  double stalled_seconds = 0;
  const bool swaps = plan_flags.link_speed.has_value() && policy.remedies.swap;
  if (swaps) {
    const auto speed = parse_byte_size(*plan_flags.link_speed, "--link-speed");
    PLIMSOLL_CALL_FAULT(speed.status());
    host.in_bytes_per_second = host.out_bytes_per_second = static_cast<double>(*speed);
    host.bytes = planner::kUnlimited;
    if (plan_flags.host_limit) {
      const auto size = parse_byte_size(*plan_flags.host_limit, "--host-limit");
      PLIMSOLL_CALL_FAULT(size.status());
      host.bytes = *size;
    }
  }
  const auto plan = [&]() -> Result<planner::RecordedPlan> {
    if (swaps) {
      if (flags.addresses || policy.policy != planner::Policy::default_) {
        return unimplemented(
            "swapping recorded steps: only --planner default, and not with --addresses");
      }
      auto found = planner::plan_recorded_swaps(*step, limit, effort, host);
      if (!found.ok()) return found.status();
      schedule_text = std::move(found->actions);
      swapped_bytes = found->swapped_bytes;
      stalled_seconds = found->stalled_seconds;
      return std::move(found->plan);
    }
    if (!flags.addresses) {
      auto found = planner::plan_recorded_step(*step, limit, effort, policy.policy);
      if (found.ok()) schedule_text = planner::schedule_text(*step, found->schedule);
      return found;
    }
    if (policy.policy != planner::Policy::default_) {
      return unimplemented("--addresses: only --planner default counts a limit in addresses");
    }
    auto found = planner::plan_recorded_step_in_addresses(*step, limit, effort);
    if (!found.ok()) return found.status();
    schedule_text = planner::addressed_schedule_text(*step, *found);
    return std::move(found->plan);
  }();
  if (!plan.ok() && plan.status().code() == StatusCode::resource_exhausted) {
    return Outcome::program_fault(with_working_limit(*step, limit, plan.status()));
  }
  PLIMSOLL_PROGRAM_FAULT(plan.status());
  const auto recomputations =
      std::count(schedule_text.begin(), schedule_text.end(), 'c') - step->op_count;
  output.json = {{"limit_bytes", planner::limit_json(plan->limit_bytes)},
                 {"peak_bytes", plan->peak_bytes},
                 {"unlimited_peak_bytes", plan->unlimited_peak_bytes},
                 {"predicted_seconds", plan->predicted_seconds},
                 {"unlimited_seconds", plan->unlimited_seconds},
                 {"lower_bound_seconds", plan->lower_bound_seconds},
                 {"overhead", plan->overhead},
                 {"planning_seconds", plan->planning_seconds},
                 {"steps", {{"compute", step->op_count}, {"recompute", recomputations}}}};
  if (swaps) {
    output.json["swapped_bytes"] = swapped_bytes;
    output.json["stalled_seconds"] = stalled_seconds;
  }
  output.text = fmt::format(
      "Recorded step {}\n"
      "  peak              {} of {} unlimited\n"
      "  predicted         {:.6g} s, {:.3f} % more than unlimited\n"
      "  at least          {:.6g} s\n"
      "  recomputations    {}\n"
      "  planned in        {:.3f} s\n",
      input.name, format_bytes(plan->peak_bytes), format_bytes(plan->unlimited_peak_bytes),
      plan->predicted_seconds, plan->overhead, plan->lower_bound_seconds, recomputations,
      plan->planning_seconds);
  if (swaps) {
    output.text += fmt::format("  swapped           {}, waiting {:.6g} s\n",
                               format_bytes(swapped_bytes), stalled_seconds);
  }
  if (flags.schedule.empty()) return {};
  return write_file(flags.schedule, schedule_text);
}

}  // namespace plimsoll::tools
