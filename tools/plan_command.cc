// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/base/log.h"
#include "tools/plan_view.h"
#include "tools/planned_program.h"
#include "tools/program_file.h"
#include "tools/recorded_plan.h"

namespace plimsoll::tools {
namespace {

constexpr int kFrontierPoints = 16;

struct PlanCommandFlags {
  std::string file;
  PlanFlags plan;
  bool frontier = false;
  std::string explain;
  std::string report;
  RecordedPlanFlags recorded;
};

// The best plan at each of several limits from the floor to the unlimited peak. A plan that is
// slower than one of a lower limit gives way to that one.
Outcome frontier(const PlannedProgram& planned, std::int64_t floor_bytes, Output& output) {
  const std::int64_t top = std::max(planned.unlimited().peak_bytes, floor_bytes);
  std::vector<std::int64_t> limits;
  for (int i = 0; i < kFrontierPoints; ++i) {
    const std::int64_t limit =
        floor_bytes + static_cast<std::int64_t>(static_cast<double>(top - floor_bytes) * i /
                                                (kFrontierPoints - 1));
    if (limits.empty() || limit > limits.back()) limits.push_back(limit);
  }
  Json points = Json::array();
  output.text += "\nfrontier: limit, peak, predicted seconds\n";
  std::int64_t best_peak = 0;
  double best_seconds = 0;
  for (const std::int64_t limit : limits) {
    const auto plan = planned.plan(limit);
    PLIMSOLL_PROGRAM_FAULT(plan.status());
    if (points.empty() || plan->predicted_seconds < best_seconds) {
      best_peak = plan->peak_bytes;
      best_seconds = plan->predicted_seconds;
    }
    points.push_back(
        {{"limit_bytes", limit}, {"peak_bytes", best_peak}, {"predicted_seconds", best_seconds}});
    char line[160];
    std::snprintf(line, sizeof line, "  %14lld  %14lld  %.6g\n", static_cast<long long>(limit),
                  static_cast<long long>(best_peak), best_seconds);
    output.text += line;
  }
  output.json["frontier"] = std::move(points);
  return {};
}

Outcome explain(const PlannedProgram& planned, const planner::Plan& plan, const std::string& name,
                bool is_in_text, Output& output) {
  const ir::Instruction* instruction = planned.module().entry()->find(name);
  if (instruction == nullptr) {
    return Outcome::call_fault(invalid_argument(
        "--explain " + name +
        (is_in_text ? ": is not a value of its own after optimization (it was fused, folded or "
                      "removed; `opt --passes optimize` shows what is left)"
                    : ": the entry computation has no such value")));
  }
  const PlanView view = view_plan(plan);
  std::int64_t computed = 0, recomputed = 0;
  Json steps = Json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const planner::Step& step = plan.steps[i];
    if (step.instruction != instruction) continue;
    computed += step.kind == planner::StepKind::compute;
    recomputed += step.kind == planner::StepKind::recompute;
    steps.push_back({{"step", i}, {"kind", std::string(to_string(step.kind))}});
  }
  const std::string decision = recomputed > 0 ? "recomputed" : "kept";
  const auto step_name = [&](std::int32_t step) {
    const auto at = static_cast<std::size_t>(step);
    const bool named = step >= 0 && at < plan.steps.size() && plan.steps[at].instruction;
    return named ? plan.steps[at].instruction->name() : std::string();
  };
  output.text += "\n" + name + " = " + instruction->shape().to_string() + " " +
                 std::string(ir::to_string(instruction->opcode())) + ": " + decision +
                 ", computed " + std::to_string(computed) + " time(s), recomputed " +
                 std::to_string(recomputed) + " time(s)\n";
  Json ranges = Json::array();
  bool at_peak = false;
  for (const ValueLife& life : lives_of(plan, *instruction)) {
    const bool here = life.first_step <= view.peak_step && view.peak_step <= life.last_step;
    at_peak |= here;
    ranges.push_back({{"leaf", life.leaf},
                      {"bytes", life.bytes},
                      {"first_step", life.first_step},
                      {"last_step", life.last_step},
                      {"first_instruction", step_name(life.first_step)},
                      {"last_instruction", step_name(life.last_step)},
                      {"recomputed", life.recomputed},
                      {"live_at_peak", here}});
    output.text += std::string("  ") + (life.recomputed ? "recomputed, " : "") + "live from step " +
                   std::to_string(life.first_step) + " (" + step_name(life.first_step) + ") to " +
                   std::to_string(life.last_step) + " (" + step_name(life.last_step) + "), " +
                   format_bytes(life.bytes) + (here ? ", at the peak\n" : "\n");
  }
  Json peak = Json::array();
  output.text += "live at the peak (step " + std::to_string(view.peak_step) + ", " +
                 step_name(view.peak_step) + ")\n";
  for (const int i : view.live_at_peak) {
    const PlanView::Value& value = view.values[static_cast<std::size_t>(i)];
    peak.push_back(
        {{"name", value.name_at_peak}, {"shape", value.shape}, {"bytes", value.buffer->bytes}});
    if (peak.size() <= 12) {
      output.text +=
          "  " + value.name + "  " + value.shape + "  " + format_bytes(value.buffer->bytes) + "\n";
    }
  }
  output.json["explain"] = {{"value", name},
                            {"decision", decision},
                            {"recomputations", recomputed},
                            {"steps", std::move(steps)},
                            {"live_ranges", std::move(ranges)},
                            {"live_at_peak", at_peak},
                            {"peak_step", view.peak_step},
                            {"peak_instruction", step_name(view.peak_step)},
                            {"peak_values", std::move(peak)}};
  return {};
}

Outcome plan(const PlanCommandFlags& flags, Output& output) {
  if (holds_recorded_step(flags.file)) {
    return plan_recorded(flags.file, flags.plan, flags.recorded, output);
  }
  std::unique_ptr<ir::Module> module;
  Outcome outcome = read_program(flags.file, module);
  if (!outcome.ok()) return outcome;
  const bool is_in_text = !flags.explain.empty() && module->entry()->find(flags.explain) != nullptr;
  const std::string title = "Plan of " + module->name();
  PlannedProgram planned;
  outcome = PlannedProgram::create(std::move(module), flags.plan, false, planned);
  if (!outcome.ok()) return outcome;
  if (!planned.not_compiled().empty()) {
    log_line(LogLevel::warning,
             "planned without kernels and their workspaces: " + planned.not_compiled());
  }
  const auto floor = planned.floor();
  PLIMSOLL_PROGRAM_FAULT(floor.status());
  const auto plan = planned.plan(planned.limit_bytes());
  PLIMSOLL_PROGRAM_FAULT(plan.status());
  output.json = plan_json(*plan, floor->bytes, planned.unlimited().peak_bytes);
  output.json["compiled"] = planned.not_compiled().empty();
  output.text = plan_text(*plan, floor->bytes, planned.unlimited().peak_bytes);
  if (flags.frontier) {
    outcome = frontier(planned, floor->bytes, output);
    if (!outcome.ok()) return outcome;
  }
  if (!flags.explain.empty()) {
    outcome = explain(planned, *plan, flags.explain, is_in_text, output);
    if (!outcome.ok()) return outcome;
  }
  if (!flags.report.empty()) {
    return write_file(flags.report, plan_report(*plan, planned.unlimited(), floor->bytes, title));
  }
  return {};
}

}  // namespace

void add_plan(Commands& commands) {
  const auto flags = std::make_shared<PlanCommandFlags>();
  CLI::App* command = commands.add("plan", "What a program would do under a memory limit");
  command->add_option("FILE", flags->file, "HLO text (-: standard input) or a recorded step")
      ->required();
  add_plan_flags(command, flags->plan);
  add_recorded_plan_flags(command, flags->recorded);
  command->add_flag("--as-written", flags->plan.as_written, "Skip the optimizing passes");
  command->add_flag("--frontier", flags->frontier,
                    "Time against memory, from the floor to the unlimited peak");
  command->add_option("--explain", flags->explain, "What happens to one value, and why");
  command->add_option("--report", flags->report, "File that gets a page with the picture");
  command->callback([&commands, flags] {
    commands.action = [flags](Output& output) { return plan(*flags, output); };
  });
}

}  // namespace plimsoll::tools
