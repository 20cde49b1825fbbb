// SPDX-License-Identifier: Apache-2.0
#include "tools/planned_program.h"

#include <cstdio>
#include <utility>

#include "runtime/base/byte_size.h"
#include "runtime/base/environment.h"
#include "runtime/device/device.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/cost_model.h"

namespace plimsoll::tools {

using planner::kUnlimited;

void add_plan_flags(CLI::App* command, PlanFlags& flags) {
  command->add_option("--memory-limit", flags.memory_limit,
                      std::string("Device memory: ") + std::string(kMemoryLimitGrammar));
  command->add_option("--planner", flags.planner, "default, greedy, sqrt or none");
}

Outcome plan_options(const PlanFlags& flags,
                     const std::function<Result<std::int64_t>(planner::Policy)>& unlimited_peak,
                     planner::PlanOptions& out) {
  PLIMSOLL_CALL_FAULT(check_environment());
  const auto pick = [](const std::string& flag, std::string_view flag_name, Variable variable) {
    if (!flag.empty()) return std::pair(flag, std::string(flag_name));
    return std::pair(variable_text(variable).text, std::string(variable_info(variable).name));
  };
  const auto [planner_text, planner_source] = pick(flags.planner, "--planner", Variable::planner);
  const auto policy = planner::parse_policy(planner_text);
  if (!policy) {
    return Outcome::call_fault(invalid_argument(planner_source + ": '" + planner_text +
                                                "' is not one of default, greedy, sqrt, none"));
  }
  out.policy = *policy;
  out.limit_bytes = kUnlimited;
  const auto [text, source] = pick(flags.memory_limit, "--memory-limit", Variable::memory_limit);
  if (text.empty()) return {};
  const auto limit = parse_memory_limit(text, source);
  PLIMSOLL_CALL_FAULT(limit.status());
  std::int64_t peak = 0;
  if (limit->kind == MemoryLimit::Kind::percent_of_peak) {
    const auto found = unlimited_peak(out.policy);
    PLIMSOLL_PROGRAM_FAULT(found.status());
    peak = *found;
  }
  out.limit_bytes = limit->resolve(device::cpu_device()->total_bytes(), peak);
  return {};
}

Outcome PlannedProgram::create(std::unique_ptr<ir::Module> module, const PlanFlags& flags,
                               bool must_compile, PlannedProgram& out) {
  // Bad flags are found before anything takes time.
  planner::PlanOptions checked;
  const Outcome early =
      plan_options(flags, [](planner::Policy) -> Result<std::int64_t> { return 1; }, checked);
  if (!early.ok()) return early;
  jit::Options jit_options;
  jit_options.dump_directory = variable_text(Variable::dump_dir).text;
  auto compiler = jit::Compiler::create(jit_options);
  PLIMSOLL_CALL_FAULT(compiler.status());
  out.compiler_ = std::move(*compiler);
  auto copy = must_compile ? nullptr : module->clone();
  auto program = executor::Program::create(std::move(module), *out.compiler_, !flags.as_written);
  if (program.ok()) {
    out.program_ = std::move(*program);
  } else if (must_compile) {
    return Outcome::program_fault(program.status());
  } else {
    out.not_compiled_ = program.status().message();
    if (!flags.as_written) PLIMSOLL_PROGRAM_FAULT(passes::optimize(*copy));
    out.fallback_ = std::move(copy);
    out.fallback_cost_ = std::make_unique<planner::RooflineCostModel>();
  }
  return out.resolve_flags(flags);
}

Outcome PlannedProgram::resolve_flags(const PlanFlags& flags) {
  const auto unlimited_peak = [&](planner::Policy policy) -> Result<std::int64_t> {
    options_.policy = policy;
    PLIMSOLL_ASSIGN_OR_RETURN(unlimited_, plan(kUnlimited));
    return unlimited_->peak_bytes;
  };
  const Outcome outcome = plan_options(flags, unlimited_peak, options_);
  if (!outcome.ok()) return outcome;
  if (!unlimited_) PLIMSOLL_PROGRAM_FAULT(unlimited_peak(options_.policy).status());
  return {};
}

const planner::CostModel& PlannedProgram::cost_model() const {
  return program_ ? program_->cost_model() : *fallback_cost_;
}

Result<planner::Plan> PlannedProgram::plan(std::int64_t limit_bytes) const {
  planner::PlanOptions options = options_;
  options.limit_bytes = limit_bytes;
  return planner::make_plan(module(), cost_model(), options);
}

Result<planner::Floor> PlannedProgram::floor() const {
  return planner::find_floor(module(), cost_model(), options_);
}

Json limit_json(std::int64_t limit_bytes) {
  return limit_bytes == kUnlimited ? Json(nullptr) : Json(limit_bytes);
}

Json plan_json(const planner::Plan& plan, std::int64_t floor_bytes,
               std::int64_t unlimited_peak_bytes) {
  const planner::BytesByCause& cause = plan.by_cause;
  return {{"limit_bytes", limit_json(plan.limit_bytes)},
          {"floor_bytes", floor_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"unlimited_peak_bytes", unlimited_peak_bytes},
          {"predicted_seconds", plan.predicted_seconds},
          {"unlimited_seconds", plan.unlimited_seconds},
          {"lower_bound_seconds", plan.lower_bound_seconds},
          {"planning_seconds", plan.planning_seconds},
          {"steps",
           {{"compute", plan.counts.compute},
            {"recompute", plan.counts.recompute},
            {"encode", plan.counts.encode},
            {"decode", plan.counts.decode},
            {"swap_out", plan.counts.swap_out},
            {"swap_in", plan.counts.swap_in},
            {"collective", plan.counts.collective}}},
          {"policy", plan.policy},
          {"live_bytes", plan.live_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"recomputed_bytes", plan.recomputed_bytes},
          {"peak_by_cause",
           {{"parameters", cause.parameters},
            {"constants", cause.constants},
            {"outputs", cause.outputs},
            {"temporaries", cause.temporaries},
            {"workspaces", cause.workspaces}}}};
}

std::string plan_text(const planner::Plan& plan, std::int64_t floor_bytes,
                      std::int64_t unlimited_peak_bytes) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    char line[256];
    std::snprintf(line, sizeof line, "%-16s %s\n", name, value.c_str());
    text += line;
  };
  const auto bytes = [](std::int64_t value) {
    return format_bytes(value) + " (" + std::to_string(value) + ")";
  };
  const auto seconds = [](double value) {
    char number[64];
    std::snprintf(number, sizeof number, "%.6g s", value);
    return std::string(number);
  };
  row("policy", plan.policy);
  row("limit", plan.limit_bytes == kUnlimited ? "none" : bytes(plan.limit_bytes));
  row("floor", bytes(floor_bytes));
  row("peak", bytes(plan.peak_bytes));
  row("unlimited peak", bytes(unlimited_peak_bytes));
  row("predicted", seconds(plan.predicted_seconds) + ", without a limit " +
                       seconds(plan.unlimited_seconds) + ", at least " +
                       seconds(plan.lower_bound_seconds));
  row("steps", std::to_string(plan.counts.compute) + " compute, " +
                   std::to_string(plan.counts.recompute) + " recompute (" +
                   format_bytes(plan.recomputed_bytes) + ")");
  row("planning", seconds(plan.planning_seconds));
  return text;
}

}  // namespace plimsoll::tools
