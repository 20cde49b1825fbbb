// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/planned_program.h"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/backend/backends.h"
#include "runtime/base/byte_size.h"
#include "runtime/device/devices.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/plan_json.h"
#include "runtime/planner/plan_summary.h"
#include "runtime/planner/residency.h"
#include "runtime/program/machine.h"

namespace plimsoll::tools {

using planner::kUnlimited;

Outcome PlannedProgram::create(std::unique_ptr<ir::Module> module, const PlanFlags& flags,
                               bool must_compile, PlannedProgram& out) {
  // Bad flags are found before anything takes time.
  Outcome outcome = check_plan_flags(flags);
  if (!outcome.ok()) return outcome;
  outcome = make_tiers(flags, out.tiers_);
  if (!outcome.ok()) return outcome;
  const auto compilation = executor::compiler_options_from_environment();
  PLIMSOLL_CALL_FAULT(compilation.status());
  auto provider = backend::create_kernels(device::default_device());
  PLIMSOLL_CALL_FAULT(provider.status());
  out.compiler_ =
      std::make_shared<const executor::ProgramCompiler>(std::move(*provider), *compilation);
  out.compiler_->set_link_speeds(out.tiers_);
  outcome = set_link_speed(flags, out.tiers_);
  if (!outcome.ok()) return outcome;
  auto copy = must_compile ? nullptr : module->clone();
  executor::ProgramOptions program_options = compilation->program;
  program_options.optimize = !flags.as_written;
  program_options.plans_alone = flags.plans_alone;
  program_options.collective_speeds = flags.collective_speeds;
  program_options.participants_here = flags.participants_here;
  auto program = out.compiler_->compile(std::move(module), program_options);
  if (program.ok()) {
    out.fitting_.program = out.fused_ = std::move(*program);
  } else if (must_compile) {
    return Outcome::program_fault(program.status());
  } else {
    out.not_compiled_ = program.status().message();
    if (!flags.as_written) {
      PLIMSOLL_PROGRAM_FAULT(passes::optimize(
          *copy, {.fused_attention = program_options.fused_attention,
                  .excess_precision = program_options.excess_precision,
                  .collective_bucket_bytes = program_options.collective_bucket_bytes,
                  .same_collectives_in_all_forms = program_options.plans_alone}));
    }
    out.fallback_ = std::move(copy);
    out.fallback_cost_ = std::make_unique<planner::RooflineCostModel>(out.compiler_->machine());
    out.fallback_plans_ = std::make_unique<planner::PlanCache>(*out.fallback_);
  }
  return out.resolve_options(flags);
}

Outcome PlannedProgram::resolve_options(const PlanFlags& flags) {
  planner::PlanPolicy policy;
  Outcome outcome = read_policy(flags, policy);
  if (!outcome.ok()) return outcome;
  auto question = planner::default_question(module());
  PLIMSOLL_PROGRAM_FAULT(question.status());
  options_ = {policy, executor::machine_of(tiers_), std::move(*question)};
  const auto unlimited =
      fused_ ? fused_->plan(options_) : fallback_plans_->plan(*fallback_cost_, options_);
  PLIMSOLL_PROGRAM_FAULT(unlimited.status());
  unlimited_ = *unlimited;
  // A share of the peak is for the program alone.
  bool is_share = false;
  const auto peak = [&]() -> Result<std::int64_t> {
    is_share = true;
    return unlimited_->peak_bytes;
  };
  outcome = read_limit(flags, peak, limit_bytes_);
  if (!outcome.ok()) return outcome;
  if (limit_bytes_ == kUnlimited) {
    fitting_ = {fused_, unlimited_};
    return {};
  }
  if (is_share) limit_bytes_ += code_bytes();
  options_.limit_bytes = limit_bytes_ - code_bytes();
  auto fitting = plan_within(options_);
  PLIMSOLL_PROGRAM_FAULT(executor::beside_code(fitting.status(), device()));
  fitting_ = std::move(*fitting);
  return {};
}

std::int64_t PlannedProgram::code_bytes() const { return device().overhead_bytes(); }

const device::Device& PlannedProgram::device() const { return *compiler_->provider().device(); }

Result<executor::ProgramPlan> PlannedProgram::plan_within(
    const planner::PlanOptions& options) const {
  if (fused_) return executor::plan_within(fused_, options);
  PLIMSOLL_ASSIGN_OR_RETURN(auto plan, fallback_plans_->plan(*fallback_cost_, options));
  return executor::ProgramPlan{nullptr, std::move(plan)};
}

std::string_view PlannedProgram::fusion() const {
  return passes::to_string(program() != nullptr ? program()->form().fusion : passes::Fusion::full);
}

std::string_view PlannedProgram::residuals() const {
  return passes::to_string(program() != nullptr ? program()->form().residuals
                                                : passes::Residuals::cheaper);
}

int PlannedProgram::recomputed_percent() const {
  return program() != nullptr ? program()->form().recomputed_percent : 100;
}

const planner::CostModel& PlannedProgram::cost_model() const {
  return program() ? program()->cost_model() : *fallback_cost_;
}

Result<std::shared_ptr<const planner::Plan>> PlannedProgram::fitting_plan(
    std::int64_t limit_bytes) const {
  planner::PlanOptions options = options_;
  options.limit_bytes = limit_bytes - code_bytes();
  PLIMSOLL_ASSIGN_OR_RETURN(executor::ProgramPlan found, plan_within(options));
  return std::move(found.plan);
}

Result<FoundFloor> PlannedProgram::floor() const {
  const auto start = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN_OR_RETURN(planner::Floor floor,
                            fused_ ? executor::least_floor(*fused_, options_)
                                   : fallback_plans_->floor(*fallback_cost_, options_));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  floor.bytes += code_bytes();
  floor.lower_bound_bytes += code_bytes();
  return FoundFloor{std::move(floor), seconds.count()};
}

std::string PlannedProgram::form_text() const {
  std::string text;
  if (fusion() != "full") {
    text +=
        fmt::format("{:<16} {} (full fusion would need more memory or time)\n", "fusion", fusion());
  }
  if (residuals() != "cheaper") {
    const int percent = recomputed_percent();
    text += fmt::format("{:<16} {}{} (loops recompute what others stack for them)\n", "residuals",
                        residuals(),
                        percent < 100 ? fmt::format(" in {} % of the rounds", percent) : "");
  }
  return text;
}

double gap_percent(double value, double bound) {
  return bound > 0 ? std::max(0.0, 100 * (value / bound - 1)) : 0;
}

namespace {

// Of the program, whatever form of it the plan is of. Plans of the same form may have been made by
// newer measurements.
double seconds_without_limit(const planner::Plan& plan, const planner::Plan& unlimited) {
  return plan.computation == unlimited.computation ? plan.unlimited_seconds
                                                   : unlimited.predicted_seconds;
}

}  // namespace

Json plan_json(const planner::Plan& plan, const std::optional<FoundFloor>& floor,
               const planner::Plan& unlimited) {
  Json json{{"limit_bytes", planner::limit_json(plan.limit_bytes)},
            {"floor_bytes", nullptr},
            {"floor_lower_bound_bytes", nullptr},
            {"floor_culprit", nullptr},
            {"floor_seconds", nullptr},
            {"unlimited_peak_bytes", unlimited.peak_bytes},
            {"gap", gap_percent(plan.predicted_seconds, plan.lower_bound_seconds)}};
  if (floor) {
    json["floor_bytes"] = floor->bytes;
    json["floor_lower_bound_bytes"] = floor->lower_bound_bytes;
    json["floor_culprit"] = floor->culprit;
    json["floor_seconds"] = floor->seconds;
  }
  json.update(planner::plan_json(plan));
  json["unlimited_seconds"] = seconds_without_limit(plan, unlimited);
  return json;
}

std::string plan_text(const planner::Plan& plan, const std::optional<FoundFloor>& floor,
                      const planner::Plan& unlimited) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<16} {}\n", name, value);
  };
  const auto bytes = [](std::int64_t value) {
    return fmt::format("{} ({})", format_bytes(value), value);
  };
  const auto seconds = [](double value) { return fmt::format("{:.6g} s", value); };
  const auto gap = [](double value, double bound) {
    return fmt::format(" (gap <= {:.2f} %)", gap_percent(value, bound));
  };
  row("policy", plan.policy);
  row("limit", plan.limit_bytes == kUnlimited ? "none" : bytes(plan.limit_bytes));
  if (floor) {
    const std::int64_t bound = floor->lower_bound_bytes;
    row("floor", bytes(floor->bytes) + ", at least " + bytes(bound) +
                     gap(static_cast<double>(floor->bytes), static_cast<double>(bound)));
    row("pinned by", floor->culprit);
    row("found in", seconds(floor->seconds));
  }
  row("peak", bytes(plan.peak_bytes));
  row("unlimited peak", bytes(unlimited.peak_bytes));
  for (const MemorySpace tier : kTiers) {
    if (plan.tier_bytes[tier] == 0) continue;
    row(std::string(tier_label(tier)).c_str(), bytes(plan.tier_bytes[tier]));
  }
  const planner::HostBytes on_host = planner::bytes_in_host_memory(plan);
  if (on_host.parameters > 0) {
    row("on the host", bytes(on_host.parameters) +
                           " of parameters, which count from their upload to their last use");
  }
  if (on_host.results > 0) {
    row("on the host",
        bytes(on_host.results) + " of results, which count until they are downloaded");
  }
  row("predicted", seconds(plan.predicted_seconds) + ", without a limit " +
                       seconds(seconds_without_limit(plan, unlimited)) + ", at least " +
                       seconds(plan.lower_bound_seconds) +
                       gap(plan.predicted_seconds, plan.lower_bound_seconds));
  std::string steps = fmt::format("{} compute, {} recompute ({})", plan.counts.compute,
                                  plan.counts.recompute, format_bytes(plan.recomputed_bytes));
  const auto count = [&](std::int64_t number, const char* name) {
    if (number > 0) steps += fmt::format(", {} {}", number, name);
  };
  count(plan.counts.encode, "encode");
  count(plan.counts.decode, "decode");
  count(plan.counts.fused_encode, "encode inside kernels");
  count(plan.counts.fused_decode, "decode inside kernels");
  count(plan.counts.swap_out, "swap out");
  count(plan.counts.swap_in, "swap in");
  count(plan.counts.upload, "upload");
  count(plan.counts.collective, "collective");
  row("steps", steps);
  row("planning", seconds(plan.planning_seconds));
  return text;
}

}  // namespace plimsoll::tools
