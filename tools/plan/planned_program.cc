// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/planned_program.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/backend/backends.h"
#include "runtime/base/byte_size.h"
#include "runtime/device/devices.h"
#include "runtime/ir/codec/codec.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/plan_summary.h"
#include "runtime/planner/residency.h"
#include "runtime/program/calibration.h"
#include "runtime/program/complete_options.h"

namespace plimsoll::tools {

using planner::kUnlimited;

Outcome PlannedProgram::create(std::unique_ptr<ir::Module> module, const PlanFlags& flags,
                               bool must_compile, PlannedProgram& out) {
  // Bad flags are found before anything takes time.
  planner::PlanOptions checked;
  Outcome outcome = plan_options(
      flags, [](const planner::PlanOptions&) -> Result<std::int64_t> { return 1; }, checked);
  if (!outcome.ok()) return outcome;
  outcome = make_tiers(flags, out.tiers_);
  if (!outcome.ok()) return outcome;
  auto provider = backend::create_kernels(device::default_device());
  PLIMSOLL_CALL_FAULT(provider.status());
  out.provider_ = std::move(*provider);
  const planner::Roofline machine = executor::machine_speeds(*out.provider_);
  executor::set_link_speeds(out.tiers_, machine);
  outcome = set_link_speed(flags, out.tiers_);
  if (!outcome.ok()) return outcome;
  auto copy = must_compile ? nullptr : module->clone();
  auto program =
      executor::Program::create(std::move(module), *out.provider_, !flags.as_written, machine);
  if (program.ok()) {
    out.program_ = out.fused_ = std::move(*program);
  } else if (must_compile) {
    return Outcome::program_fault(program.status());
  } else {
    out.not_compiled_ = program.status().message();
    if (!flags.as_written) PLIMSOLL_PROGRAM_FAULT(passes::optimize(*copy));
    out.fallback_ = std::move(copy);
    out.fallback_cost_ = std::make_unique<planner::RooflineCostModel>(machine);
    out.fallback_plans_ = std::make_unique<planner::PlanCache>(*out.fallback_);
  }
  return out.resolve_options(flags);
}

Outcome PlannedProgram::resolve_options(const PlanFlags& flags) {
  const auto complete = [&](planner::PlanOptions& options) {
    options.parameters = planner::default_residency(module());
    if (tiers_.host != nullptr) options.host = executor::describe(*tiers_.host);
    if (tiers_.disk != nullptr) options.disk = executor::describe(*tiers_.disk);
  };
  const auto find_unlimited = [&](const planner::PlanOptions& options) -> Status {
    options_ = options;
    complete(options_);
    PLIMSOLL_ASSIGN_OR_RETURN(unlimited_, plan(kUnlimited));
    return ok_status();
  };
  planner::PlanOptions asked;
  const Outcome outcome = plan_options(
      flags,
      [&](const planner::PlanOptions& options) -> Result<std::int64_t> {
        PLIMSOLL_RETURN_IF_ERROR(find_unlimited(options));
        return unlimited_->peak_bytes;
      },
      asked);
  if (!outcome.ok()) return outcome;
  if (!unlimited_) PLIMSOLL_PROGRAM_FAULT(find_unlimited(asked));
  options_.limit_bytes = asked.limit_bytes;
  if (program_ != nullptr && options_.limit_bytes != kUnlimited) {
    const auto fitting = executor::plan_within(program_, options_);
    PLIMSOLL_PROGRAM_FAULT(fitting.status());
    program_ = fitting->program;
  }
  return {};
}

std::string_view PlannedProgram::fusion() const {
  return program_ != nullptr && program_->fusion() == passes::Fusion::vertical ? "vertical"
                                                                               : "full";
}

const planner::CostModel& PlannedProgram::cost_model() const {
  return program_ ? program_->cost_model() : *fallback_cost_;
}

Result<std::shared_ptr<const planner::Plan>> PlannedProgram::plan(std::int64_t limit_bytes) const {
  planner::PlanOptions options = options_;
  options.limit_bytes = limit_bytes;
  return program_ ? program_->plan(options) : fallback_plans_->plan(*fallback_cost_, options);
}

Result<std::shared_ptr<const planner::Plan>> PlannedProgram::fitting_plan(
    std::int64_t limit_bytes) const {
  if (!fused_) return plan(limit_bytes);
  planner::PlanOptions options = options_;
  options.limit_bytes = limit_bytes;
  PLIMSOLL_ASSIGN_OR_RETURN(const executor::ProgramPlan found,
                            executor::plan_within(fused_, options));
  return found.plan;
}

Result<planner::Floor> PlannedProgram::floor() const {
  return fused_ ? executor::least_floor(*fused_, options_)
                : fallback_plans_->floor(*fallback_cost_, options_);
}

std::string PlannedProgram::fusion_text() const {
  return fusion() == "full" ? "" : "fusion           vertical: full fusion needs more, or longer\n";
}

Json limit_json(std::int64_t limit_bytes) {
  return limit_bytes == kUnlimited ? Json(nullptr) : Json(limit_bytes);
}

double gap_percent(double value, double bound) {
  return bound > 0 ? std::max(0.0, 100 * (value / bound - 1)) : 0;
}

Json lossy_json(const planner::Plan& plan) {
  Json list = Json::array();
  for (const planner::LossyUse& use : planner::lossy_uses(plan)) {
    list.push_back({{"codec", std::string(to_string(use.codec))},
                    {"encodes", use.encodes},
                    {"error_bound", std::string(planner::error_bound(use.codec))}});
  }
  return list;
}

Json plan_json(const planner::Plan& plan, const planner::Floor& floor,
               std::int64_t unlimited_peak_bytes) {
  const planner::BytesByCause& cause = plan.by_cause;
  const planner::ArenaBytes arena = planner::arena_at_peak(plan);
  return {{"limit_bytes", limit_json(plan.limit_bytes)},
          {"floor_bytes", floor.bytes},
          {"floor_lower_bound_bytes", floor.lower_bound_bytes},
          {"floor_culprit", floor.culprit},
          {"peak_bytes", plan.peak_bytes},
          {"unlimited_peak_bytes", unlimited_peak_bytes},
          {"predicted_seconds", plan.predicted_seconds},
          {"unlimited_seconds", plan.unlimited_seconds},
          {"lower_bound_seconds", plan.lower_bound_seconds},
          {"gap", gap_percent(plan.predicted_seconds, plan.lower_bound_seconds)},
          {"planning_seconds", plan.planning_seconds},
          {"steps",
           {{"compute", plan.counts.compute},
            {"recompute", plan.counts.recompute},
            {"encode", plan.counts.encode},
            {"decode", plan.counts.decode},
            {"fused_encode", plan.counts.fused_encode},
            {"fused_decode", plan.counts.fused_decode},
            {"swap_out", plan.counts.swap_out},
            {"swap_in", plan.counts.swap_in},
            {"collective", plan.counts.collective}}},
          {"lossy", lossy_json(plan)},
          {"policy", plan.policy},
          {"live_bytes", plan.live_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"host_bytes", plan.host_bytes},
          {"disk_bytes", plan.disk_bytes},
          {"recomputed_bytes", plan.recomputed_bytes},
          {"peak_by_cause",
           {{"parameters", cause.parameters},
            {"constants", cause.constants},
            {"outputs", cause.outputs},
            {"temporaries", cause.temporaries},
            {"workspaces", cause.workspaces}}},
          {"arena_at_peak",
           {{"activations", arena.activations},
            {"workspaces", arena.workspaces},
            {"encoded", arena.encoded},
            {"staging", arena.staging}}}};
}

std::string plan_text(const planner::Plan& plan, const planner::Floor& floor,
                      std::int64_t unlimited_peak_bytes) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    char head[32];
    std::snprintf(head, sizeof head, "%-16s ", name);
    text += head + value + "\n";
  };
  const auto bytes = [](std::int64_t value) {
    return format_bytes(value) + " (" + std::to_string(value) + ")";
  };
  const auto seconds = [](double value) {
    char number[64];
    std::snprintf(number, sizeof number, "%.6g s", value);
    return std::string(number);
  };
  const auto gap = [](double value, double bound) {
    char number[64];
    std::snprintf(number, sizeof number, " (gap <= %.2f %%)", gap_percent(value, bound));
    return std::string(number);
  };
  row("policy", plan.policy);
  row("limit", plan.limit_bytes == kUnlimited ? "none" : bytes(plan.limit_bytes));
  row("floor",
      bytes(floor.bytes) + ", at least " + bytes(floor.lower_bound_bytes) +
          gap(static_cast<double>(floor.bytes), static_cast<double>(floor.lower_bound_bytes)));
  row("pinned by", floor.culprit);
  row("peak", bytes(plan.peak_bytes));
  row("unlimited peak", bytes(unlimited_peak_bytes));
  if (plan.host_bytes > 0) row("host memory", bytes(plan.host_bytes));
  if (plan.disk_bytes > 0) row("spill file", bytes(plan.disk_bytes));
  row("predicted", seconds(plan.predicted_seconds) + ", without a limit " +
                       seconds(plan.unlimited_seconds) + ", at least " +
                       seconds(plan.lower_bound_seconds) +
                       gap(plan.predicted_seconds, plan.lower_bound_seconds));
  std::string steps = std::to_string(plan.counts.compute) + " compute, " +
                      std::to_string(plan.counts.recompute) + " recompute (" +
                      format_bytes(plan.recomputed_bytes) + ")";
  const auto count = [&](std::int64_t number, const char* name) {
    if (number > 0) steps += ", " + std::to_string(number) + " " + name;
  };
  count(plan.counts.encode, "encode");
  count(plan.counts.decode, "decode");
  count(plan.counts.fused_encode, "encode inside kernels");
  count(plan.counts.fused_decode, "decode inside kernels");
  count(plan.counts.swap_out, "swap out");
  count(plan.counts.swap_in, "swap in");
  count(plan.counts.collective, "collective");
  row("steps", steps);
  row("planning", seconds(plan.planning_seconds));
  return text;
}

}  // namespace plimsoll::tools
