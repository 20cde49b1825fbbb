// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/recorded/recorded_step.h"
#include "runtime/base/log.h"
#include "tools/plan/plan_explain.h"
#include "tools/plan/plan_frontier.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/planned_program.h"
#include "tools/plan/recorded_plan.h"
#include "tools/program_file.h"

namespace plimsoll::tools {
namespace {

struct PlanCommandFlags {
  std::string file;
  PlanFlags plan;
  bool frontier = false;
  std::optional<std::string> explain;
  std::string report;
  RecordedPlanFlags recorded;
  ModelFlags model;
};

Outcome plan(const PlanCommandFlags& flags, Output& output) {
  InputFile input;
  Outcome outcome = read_input(flags.file, input);
  if (!outcome.ok()) return outcome;
  if (planner::is_recorded_step(input.text)) {
    const char* misplaced = flags.frontier          ? "--frontier"
                            : flags.explain         ? "--explain"
                            : !flags.report.empty() ? "--report"
                            : flags.plan.as_written ? "--as-written"
                                                    : nullptr;
    if (misplaced != nullptr) return not_for("recorded steps", misplaced);
    return plan_recorded(input, flags.plan, flags.recorded, output);
  }
  const char* misplaced = !flags.recorded.schedule.empty() ? "--schedule"
                          : flags.recorded.addresses       ? "--addresses"
                          : flags.recorded.keep_order      ? "--keep-order"
                                                           : nullptr;
  if (misplaced != nullptr) return not_for("HLO text", misplaced);
  std::unique_ptr<ir::Module> module;
  ModelFlags model = flags.model;
  outcome = parse_program(input, model, module);
  if (!outcome.ok()) return outcome;
  const bool is_in_text = flags.explain && module->entry()->find(*flags.explain) != nullptr;
  const std::string title = "Plan of " + module->name();
  PlannedProgram planned;
  outcome = partition_by(flags.plan, *module);
  if (!outcome.ok()) return outcome;
  outcome = PlannedProgram::create(std::move(module), flags.plan, false, planned);
  if (!outcome.ok()) return outcome;
  if (!planned.not_compiled().empty()) {
    log_line(LogLevel::warning,
             "planned without kernels and their workspaces: " + planned.not_compiled());
  }
  const planner::Plan& made = planned.plan();
  const auto floor = planned.floor();
  PLIMSOLL_PROGRAM_FAULT(floor.status());
  output.json = plan_json(made, *floor, planned.unlimited());
  output.json["compiled"] = planned.not_compiled().empty();
  output.json["fusion"] = planned.fusion();
  output.json["residuals"] = planned.residuals();
  output.json["recomputed_percent"] = planned.recomputed_percent();
  output.text = plan_text(made, *floor, planned.unlimited()) + planned.form_text();
  std::vector<FrontierPoint> points;
  if (flags.frontier) {
    outcome = make_frontier(planned, floor->bytes, points);
    if (!outcome.ok()) return outcome;
    output.json["frontier"] = frontier_json(points);
    output.text += frontier_text(points);
  }
  if (flags.explain) {
    outcome = explain_value(planned, made, *flags.explain, is_in_text, output);
    if (!outcome.ok()) return outcome;
  }
  if (!flags.report.empty()) {
    return write_file(flags.report,
                      plan_report(made, planned.unlimited(), *floor, points,
                                  title + ", " + std::string(planned.fusion()) + " fusion"));
  }
  return {};
}

}  // namespace

void add_plan(Commands& commands) {
  const auto flags = std::make_shared<PlanCommandFlags>();
  CLI::App* command = commands.add("plan", "What a program would do under a memory limit");
  command->add_option("FILE", flags->file, "HLO text (-: standard input), or of a recorded step")
      ->required();
  add_plan_flags(command, flags->plan);
  add_tier_flags(command, flags->plan);
  add_topology_flags(command, flags->plan);
  add_model_flags(command, flags->model);
  add_value_flag(command, flags->model);
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
