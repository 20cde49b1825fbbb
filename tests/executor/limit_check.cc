// SPDX-License-Identifier: Apache-2.0
#include "tests/executor/limit_check.h"
#include "runtime/device/devices.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/resolved_plan.h"
#include "runtime/executor/run_together.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/program/machine.h"
#include "tests/executor/launch_check.h"

namespace plimsoll::testing {
namespace {

using executor::Executable;
using executor::Program;

struct LimitedRun {
  std::string error;
  std::vector<ir::Literal> result;  // of each participant
  std::int64_t peak_bytes = 0;
  planner::StepCounts counts;
  double predicted_seconds = 0;
  executor::ProgramForm form;
  bool slices = false, synchronous = false;
  int joint_launches = 0, beside = 0;
};

// Whatever can go on beside kernels does.
executor::ProgramOptions eager_collectives(bool optimize, bool excess_precision = false) {
  executor::ProgramOptions options(optimize);
  options.excess_precision = excess_precision;
  options.overlap_bytes = 1;
  return options;
}

// Of the plan and its callees.
std::string check_launches(const Executable& executable, int& joint_launches, int& beside) {
  const auto resolution = executor::resolve(executable.program(), executable.plan());
  if (!resolution.ok()) return resolution.status().to_string();
  for (const auto& plan : resolution->plans) {
    IdVector<planner::StepId, char> may_join;
    for (const executor::ResolvedStep& step : plan->steps) {
      may_join.push_back(step.kernel != nullptr &&
                                 step.kernel->may_join(at(step.input_count), at(step.output_count))
                             ? 1
                             : 0);
    }
    executor::LaunchOrder order{plan->launch_steps, {}};
    for (const executor::ResolvedLaunch& launch : plan->launches) {
      if (launch.is_chain) {
        const auto first = plan->launch_steps.begin() + launch.steps;
        const std::string error = check_chain(*plan->plan, first[0], first[1]);
        if (!error.empty()) return plan->plan->computation->name() + ": " + error;
        order.ends.push_back(launch.steps + 1);  // apart, in all else
      }
      order.ends.push_back(launch.steps + launch.step_count);
      if (launch.joint >= 0) ++joint_launches;
      if (launch.goes_on) ++beside;
    }
    const std::string error = check_launch_order(*plan->plan, may_join, order);
    if (!error.empty()) return plan->plan->computation->name() + ": " + error;
  }
  return {};
}

// At fixed speeds: plans do not depend on the machine.
std::shared_ptr<memory::Tiers> make_tiers(const std::shared_ptr<device::Device>& device,
                                          const LimitOptions& options, std::string& error) {
  auto tiers = std::make_shared<memory::Tiers>();
  if (options.host_bytes > 0) {
    tiers->host = memory::HostTier::create(device, options.host_bytes);
    memory::LinkSpeed speed{20e9, 20e9, 5e-6};
    if (options.synchronous) {
      speed.compute_share = 0.125;
      speed.synchronous_out_bytes_per_second = speed.synchronous_in_bytes_per_second = 10e9;
    }
    tiers->host->set_speed(speed);
  }
  if (options.disk_bytes > 0) {
    const auto folder = std::filesystem::temp_directory_path().string();
    auto file = memory::SpillFile::create(folder, options.disk_bytes, device);
    if (!file.ok()) {
      error = file.status().to_string();
      return tiers;
    }
    tiers->disk = std::move(file).value();
    tiers->disk->set_speed({5e9, 5e9, 20e-6});
  }
  return tiers;
}

planner::PlanPolicy policy_of(const LimitOptions& options) {
  planner::PlanPolicy policy;
  policy.remedies = options.remedies;
  return policy;
}

// The plan's share of a tier, and no byte left over.
std::string check_tier(const memory::Tier* tier, std::int64_t planned, const char* name) {
  const memory::TierStatistics s = tier == nullptr ? memory::TierStatistics{} : tier->statistics();
  if (s.peak_bytes == planned && s.used_bytes == 0 && s.peak_bytes <= s.limit_bytes) return {};
  return "of " + std::string(name) + " " + std::to_string(s.peak_bytes) + " bytes were used and " +
         std::to_string(planned) + " planned of " + std::to_string(s.limit_bytes) + "; " +
         std::to_string(s.used_bytes) + " are used still";
}

// By participant.
using Arguments = std::span<const std::vector<ir::Literal>>;

Result<std::vector<ir::Literal>> run_all(const Executable& executable,
                                         std::span<const std::shared_ptr<memory::Budget>> budgets,
                                         Arguments arguments) {
  if (budgets.size() > 1) return executor::run_together(executable, budgets, arguments);
  PLIMSOLL_ASSIGN_OR_RETURN(ir::Literal result,
                            executor::run_on_host(executable, *budgets[0], arguments[0]));
  return std::vector<ir::Literal>(1, std::move(result));
}

LimitedRun run_at(const std::shared_ptr<const Program>& program, Arguments arguments,
                  std::int64_t limit, const LimitOptions& check) {
  LimitedRun run;
  std::vector<std::shared_ptr<memory::Budget>> budgets;
  const auto& device = program->provider().device();
  const bool is_limited = limit != planner::kUnlimited;
  const auto make = [&](std::int64_t beside) -> Result<std::shared_ptr<const Executable>> {
    budgets.clear();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto tiers = make_tiers(device, check, run.error);
      if (!run.error.empty()) return internal_error(run.error);
      budgets.push_back(memory::Budget::create(device, limit + beside, *tiers));
    }
    planner::Question question;
    question.limit_bytes = limit;
    return executor::make_executable(program, policy_of(check), question, *budgets[0]);
  };
  // `limit` is for the program alone, so its code is loaded first.
  std::shared_ptr<const Executable> loaded;
  if (is_limited && device->overhead_bytes() > 0) {
    constexpr std::int64_t kRoomForCode = std::int64_t{1} << 30;
    const auto made = make(kRoomForCode);
    if (made.ok()) loaded = *made;
  }
  const auto executable = make(is_limited ? device->overhead_bytes() : 0);
  if (!executable.ok()) {
    run.error = executable.status().to_string();
    return run;
  }
  const planner::Plan& plan = (*executable)->plan();
  if (const Status proof = planner::check_plan((*executable)->program().module(), plan);
      !proof.ok()) {
    run.error = "check_plan: " + proof.to_string();
    return run;
  }
  auto result = run_all(**executable, budgets, arguments);
  if (!result.ok()) {
    run.error = result.status().to_string();
    return run;
  }
  run.result = std::move(result).value();
  run.error = check_launches(**executable, run.joint_launches, run.beside);
  if (!run.error.empty()) return run;
  (*executable)->enable_joint_launches(false);
  const auto apart = run_all(**executable, budgets, arguments);
  if (!apart.ok() || !(*apart == run.result)) {
    run.error = "other bits with kernels one by one";
    return run;
  }
  run.peak_bytes = plan.peak_bytes;
  run.counts = plan.counts;
  for (const planner::Step& step : plan.steps) {
    run.slices = run.slices || !step.sliced.empty();
    run.synchronous = run.synchronous || step.synchronous;
    for (const planner::SlicedState& state : step.sliced) {
      run.synchronous = run.synchronous || state.synchronous;
    }
  }
  run.predicted_seconds = plan.predicted_seconds;
  run.form = (*executable)->program().form();
  // The plan counts every constant of the module; the run holds those that are used.
  const std::int64_t constants = plan.by_cause.constants;
  for (const auto& budget : budgets) {
    const std::int64_t measured = budget->statistics().peak_bytes;
    if (measured > limit) run.error = "measured peak is over the limit";
    if (measured > run.peak_bytes || measured < run.peak_bytes - constants) {
      run.error = "measured peak " + std::to_string(measured) + " is not the plan's " +
                  std::to_string(run.peak_bytes);
    }
    const memory::Tiers& tiers = budget->tiers();
    if (run.error.empty())
      run.error = check_tier(tiers.host.get(), plan.tier_bytes.host, "host memory");
    if (run.error.empty()) run.error = check_tier(tiers.disk.get(), plan.tier_bytes.disk, "disk");
  }
  return run;
}

// The floor over all forms of the program does, with the same bits, and one byte less does not. The
// module as it is written needs no less.
std::string check_least_floor(const ir::Module& module, device::KernelProvider& provider,
                              const std::shared_ptr<const Program>& program, Arguments arguments,
                              planner::PlanOptions floor_options, const LimitedRun& unlimited,
                              const LimitOptions& options) {
  const auto full = program->floor(floor_options);
  const auto least = executor::least_floor(*program, floor_options);
  if (!full.ok() || !least.ok()) return "least floor: " + least.status().to_string();
  if (least->bytes > full->bytes) return "the least floor is above that of full fusion";
  const auto as_written = Program::create(module.clone(), provider, false);
  if (!as_written.ok()) return "as written: " + as_written.status().to_string();
  const auto floor_as_written = (*as_written)->floor(floor_options);
  if (!floor_as_written.ok()) return "as written: " + floor_as_written.status().to_string();
  // What rounds otherwise as written has no such form (passes::Fusion::as_written).
  const auto fallback = program->in_form({passes::Fusion::as_written, passes::Residuals::cheaper});
  const bool has_form = module.instruction_count() <= executor::kMostInstructionsAsWritten &&
                        fallback.ok() && *fallback != nullptr &&
                        ir::to_text((*fallback)->module()) == ir::to_text((*as_written)->module());
  if (has_form && least->bytes > floor_as_written->bytes) {
    return "the least floor, " + std::to_string(least->bytes) + ", is above the " +
           std::to_string(floor_as_written->bytes) + " of the module as written";
  }
  const LimitedRun run = run_at(program, arguments, least->bytes, options);
  if (!run.error.empty()) return "at the least floor: " + run.error;
  if (!(run.result == unlimited.result)) return "at the least floor: other bits than unlimited";
  if (least->bytes == 0) return {};
  floor_options.limit_bytes = least->bytes - 1;
  const auto refused = executor::plan_within(program, floor_options);
  if (refused.ok()) {
    return "one byte below the least floor " + std::to_string(least->bytes) + " was planned, " +
           std::string(passes::to_string(refused->program->form().fusion)) + ", " +
           std::string(passes::to_string(refused->program->form().residuals)) + ", own floor " +
           std::to_string(refused->program->floor(floor_options)->bytes);
  }
  const auto* shortage = refused.status().shortage();
  if (shortage == nullptr || shortage->floor_bytes != least->bytes) {
    return "one byte below the least floor: " + refused.status().to_string();
  }
  return {};
}

}  // namespace

std::string check_limits(const ir::Module& module, std::span<const ir::Literal> arguments,
                         device::KernelProvider& provider, std::uint64_t seed, int limits,
                         const LimitOptions& options, LimitCheck* report) {
  const std::vector<ir::Literal> only(arguments.begin(), arguments.end());
  return check_limits_together(module, std::span(&only, 1), provider, seed, limits, options,
                               report);
}

std::string check_limits_together(const ir::Module& module, Arguments arguments,
                                  device::KernelProvider& provider, std::uint64_t seed, int limits,
                                  const LimitOptions& options, LimitCheck* report) {
  auto program = Program::create(module.clone(), provider,
                                 eager_collectives(options.optimize, options.excess_precision));
  if (!program.ok()) return "compile: " + program.status().to_string();
  const LimitedRun unlimited = run_at(*program, arguments, planner::kUnlimited, options);
  if (!unlimited.error.empty()) return "unlimited: " + unlimited.error;

  std::string error;
  const auto tiers = make_tiers(provider.device(), options, error);
  if (!error.empty()) return error;
  planner::PlanOptions floor_options{policy_of(options), executor::machine_of(*tiers), {}};
  const auto floor = (*program)->floor(floor_options);
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
  // Not all forms are asked for at every limit.
  std::map<executor::ProgramForm, double> slower;
  for (const std::int64_t limit : at) {
    const LimitedRun run = run_at(*program, arguments, limit, options);
    const std::string where = "at limit " + std::to_string(limit) + " (floor " +
                              std::to_string(floor->bytes) + ", peak " +
                              std::to_string(unlimited.peak_bytes) + "): ";
    if (!run.error.empty()) return where + run.error;
    if (!(run.result == unlimited.result)) return where + "other bits than unlimited";
    const auto before = slower.find(run.form);
    if (before != slower.end() && run.predicted_seconds > before->second * (1 + 1e-9)) {
      return where + "slower than with less memory, " +
             std::to_string(run.predicted_seconds * 1e6) + " against " +
             std::to_string(before->second * 1e6) + " us";
    }
    slower[run.form] = run.predicted_seconds;
    if (report != nullptr) {
      ++report->limits;
      if (run.counts.recompute > 0) ++report->recomputing_plans;
      if (run.counts.all_encodes() > 0) ++report->encoding_plans;
      report->encoding_kernels += run.counts.fused_encode;
      report->decoding_kernels += run.counts.fused_decode;
      if (run.counts.swap_out > 0) ++report->swapping_plans;
      if (run.synchronous) ++report->synchronous_plans;
      if (run.slices) ++report->slicing_plans;
      if (run.counts.upload > 0) ++report->streaming_plans;
      report->joint_launches += run.joint_launches;
      report->beside += run.beside;
    }
  }
  if (seed % 2 == 0 || seed % 8 == 3) {
    error =
        check_least_floor(module, provider, *program, arguments, floor_options, unlimited, options);
    if (!error.empty()) return error;
  }
  if (floor->bytes > 0) {
    floor_options.limit_bytes = floor->bytes - 1;
    const auto refused = (*program)->plan(floor_options);
    if (refused.ok()) return "one byte below the floor was planned";
    if (refused.status().code() != StatusCode::resource_exhausted ||
        refused.status().shortage() == nullptr ||
        refused.status().shortage()->floor_bytes != floor->bytes) {
      return "one byte below the floor: " + refused.status().to_string();
    }
  }
  return {};
}

std::vector<ir::Literal> run_unlimited_together(const ir::Module& module, Arguments arguments,
                                                device::KernelProvider& provider, bool optimize,
                                                std::string& error) {
  auto program = Program::create(module.clone(), provider, eager_collectives(optimize));
  if (!program.ok()) {
    error = program.status().to_string();
    return {};
  }
  LimitedRun run = run_at(*program, arguments, planner::kUnlimited, {});
  error = run.error;
  return std::move(run.result);
}

ir::Literal run_unlimited(const ir::Module& module, std::span<const ir::Literal> arguments,
                          device::KernelProvider& provider, bool optimize, std::string& error) {
  const std::vector<ir::Literal> only(arguments.begin(), arguments.end());
  std::vector<ir::Literal> results =
      run_unlimited_together(module, std::span(&only, 1), provider, optimize, error);
  return results.empty() ? ir::Literal() : std::move(results[0]);
}

}  // namespace plimsoll::testing
