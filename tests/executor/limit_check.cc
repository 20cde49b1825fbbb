// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/limit_check.h"

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"

namespace plimsoll::testing {
namespace {

using executor::Executable;
using executor::Program;

struct LimitedRun {
  std::string error;
  ir::Literal result;
  std::int64_t peak_bytes = 0, measured_bytes = 0, recompute_steps = 0;
  double predicted_seconds = 0;
};

LimitedRun run_at(const std::shared_ptr<const Program>& program,
                  std::span<const ir::Literal> arguments, std::int64_t limit) {
  LimitedRun run;
  const auto budget = memory::Budget::create(device::cpu_device(), limit);
  planner::PlanOptions options;
  options.limit_bytes = limit;
  const auto executable = Executable::create(program, options, *budget);
  if (!executable.ok()) {
    run.error = executable.status().to_string();
    return run;
  }
  const planner::Plan& plan = (*executable)->plan();
  if (const Status proof = planner::check_plan(program->module(), plan); !proof.ok()) {
    run.error = "check_plan: " + proof.to_string();
    return run;
  }
  auto result = executor::run_on_host(**executable, *budget, arguments);
  if (!result.ok()) {
    run.error = result.status().to_string();
    return run;
  }
  run.result = std::move(result).value();
  run.peak_bytes = plan.peak_bytes;
  run.measured_bytes = budget->statistics().peak_bytes;
  run.recompute_steps = plan.counts.recompute;
  run.predicted_seconds = plan.predicted_seconds;
  if (run.measured_bytes > limit) run.error = "measured peak is over the limit";
  // The plan counts every constant of the module; the run holds those that are used.
  const std::int64_t constants = plan.by_cause.constants;
  if (run.measured_bytes > run.peak_bytes || run.measured_bytes < run.peak_bytes - constants) {
    run.error = "measured peak " + std::to_string(run.measured_bytes) + " is not the plan's " +
                std::to_string(run.peak_bytes);
  }
  return run;
}

}  // namespace

std::string check_limits(const ir::Module& module, std::span<const ir::Literal> arguments,
                         jit::Compiler& compiler, std::uint64_t seed, int limits, bool optimize,
                         LimitCheck* report) {
  auto program = Program::create(module.clone(), compiler, optimize);
  if (!program.ok()) return "compile: " + program.status().to_string();
  const LimitedRun unlimited = run_at(*program, arguments, planner::kUnlimited);
  if (!unlimited.error.empty()) return "unlimited: " + unlimited.error;

  const auto floor =
      planner::find_floor((*program)->module(), (*program)->cost_model(), planner::PlanOptions{});
  if (!floor.ok()) return "floor: " + floor.status().to_string();
  if (floor->bytes > unlimited.peak_bytes) return "the floor is above the unlimited peak";
  if (report != nullptr) {
    report->floor_bytes = floor->bytes;
    report->peak_bytes = unlimited.peak_bytes;
  }

  std::vector<std::int64_t> at{floor->bytes, unlimited.peak_bytes};
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::int64_t> between(floor->bytes, unlimited.peak_bytes);
  for (int i = 0; i < limits; ++i) at.push_back(between(random));
  std::sort(at.begin(), at.end());
  double slower = -1;
  for (const std::int64_t limit : at) {
    const LimitedRun run = run_at(*program, arguments, limit);
    const std::string where = "at limit " + std::to_string(limit) + " (floor " +
                              std::to_string(floor->bytes) + ", peak " +
                              std::to_string(unlimited.peak_bytes) + "): ";
    if (!run.error.empty()) return where + run.error;
    if (!(run.result == unlimited.result)) return where + "other bits than unlimited";
    if (slower >= 0 && run.predicted_seconds > slower * (1 + 1e-9)) {
      return where + "slower than with less memory";
    }
    slower = run.predicted_seconds;
    if (report != nullptr) {
      ++report->limits;
      if (run.recompute_steps > 0) ++report->recomputing_plans;
    }
  }
  if (floor->bytes > 0) {
    planner::PlanOptions below;
    below.limit_bytes = floor->bytes - 1;
    const auto refused = planner::make_plan((*program)->module(), (*program)->cost_model(), below);
    if (refused.ok()) return "one byte below the floor was planned";
    if (refused.status().code() != StatusCode::resource_exhausted ||
        refused.status().shortage() == nullptr ||
        refused.status().shortage()->floor_bytes != floor->bytes) {
      return "one byte below the floor: " + refused.status().to_string();
    }
  }
  return {};
}

ir::Literal run_unlimited(const ir::Module& module, std::span<const ir::Literal> arguments,
                          jit::Compiler& compiler, bool optimize, std::string& error) {
  auto program = Program::create(module.clone(), compiler, optimize);
  if (!program.ok()) {
    error = program.status().to_string();
    return {};
  }
  LimitedRun run = run_at(*program, arguments, planner::kUnlimited);
  error = run.error;
  return std::move(run.result);
}

}  // namespace plimsoll::testing
