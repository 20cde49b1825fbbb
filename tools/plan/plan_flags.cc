// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_flags.h"

#include <fmt/core.h>

#include "runtime/base/byte_size.h"
#include "runtime/base/environment.h"
#include "runtime/device/devices.h"
#include "runtime/ir/participants.h"
#include "runtime/passes/passes.h"
#include "runtime/planner/options.h"
#include "tools/program_file.h"

namespace plimsoll::tools {

void add_plan_flags(CLI::App* command, PlanFlags& flags) {
  command->add_option("--memory-limit", flags.memory_limit,
                      std::string("Device memory: ") + std::string(kMemoryLimitGrammar));
  command->add_option("--planner", flags.planner, "default, greedy, sqrt or none");
  command->add_option("--remedies", flags.remedies,
                      "Some of recompute,compress,swap,lossy, or all or none");
  command->add_option("--min-size", flags.min_size, "Smaller values are always kept");
  command->add_option("--planning", flags.planning,
                      "full (all before the first run, unless this says otherwise), first (the "
                      "quick plan alone) or background (better ones behind the runs)");
  command->add_option("--planning-seconds", flags.planning_seconds,
                      "Time to look for better plans in (0: a fixed amount of work)");
  command->add_option("--without", flags.without,
                      "Techniques of the planner to leave out, to see what they are worth");
}

void add_topology_flags(CLI::App* command, PlanFlags& flags) {
  command->add_option("--replicas", flags.replicas, "Of the program [as it says]")
      ->check(CLI::Range(std::int64_t{1}, ir::kMostParticipants));
  command->add_option("--partitions", flags.partitions, "Of each replica [as it says]")
      ->check(CLI::Range(std::int64_t{1}, ir::kMostParticipants));
  command
      ->add_option("--sharding", flags.shardings,
                   "NAME={devices=[4,1]<=[4]}: how partitions hold a parameter of a program whose "
                   "arrays are whole")
      ->allow_extra_args(false);
}

namespace {

// `NAME={devices=...}` of a parameter by its name or number.
Outcome hold_parameter(const std::string& flag, ir::Module& module) {
  const auto equals = flag.find('=');
  const std::string name = flag.substr(0, equals);
  const auto& parameters = module.entry()->parameters();
  for (std::size_t i = 0; i < parameters.size() && equals != std::string::npos; ++i) {
    if (parameters[i]->name() != name && std::to_string(i) != name) continue;
    PLIMSOLL_CALL_FAULT(passes::hold_parameter(module, i, flag.substr(equals + 1))
                            .with_context(fmt::format("--sharding {} (--partitions {})", flag,
                                                      module.num_partitions)));
    return {};
  }
  return Outcome::call_fault(invalid_argument(
      fmt::format("--sharding {}: expected NAME={{devices=...}} with the name of a "
                  "parameter (the program has: {})",
                  flag, parameter_names(*module.entry()))));
}

}  // namespace

Outcome set_topology(const PlanFlags& flags, ir::Module& module) {
  if (flags.replicas != 0) module.replica_count = flags.replicas;
  if (flags.partitions != 0) module.num_partitions = flags.partitions;
  for (const std::string& flag : flags.shardings) {
    Outcome outcome = hold_parameter(flag, module);
    if (!outcome.ok()) return outcome;
  }
  return {};
}

Outcome partition_by(const PlanFlags& flags, ir::Module& module) {
  Outcome outcome = set_topology(flags, module);
  if (!outcome.ok()) return outcome;
  const std::int64_t most = ir::kMostParticipants;
  if (module.replica_count > most || module.num_partitions > most ||
      module.replica_count * module.num_partitions > most) {
    return Outcome::program_fault(unimplemented(
        fmt::format("{} replicas x {} partitions: at most {} participants run here; --replicas and "
                    "--partitions change them",
                    module.replica_count, module.num_partitions, most)));
  }
  PLIMSOLL_PROGRAM_FAULT(passes::partition(module).status());
  return {};
}

void add_tier_flags(CLI::App* command, PlanFlags& flags) {
  command->add_option("--host-limit", flags.host_limit,
                      "Host memory that values may be swapped to");
  command->add_option("--spill-dir", flags.spill_dir,
                      "Folder of the file that values may be swapped to");
  command->add_option("--spill-limit", flags.spill_limit, "Bytes of that file");
  command->add_option("--link-speed", flags.link_speed,
                      "Bytes per second to and from host memory, e.g. 25GB, instead of measuring");
}

namespace {

// The flag's text, else the variable's, and the name of what it comes from.
struct Given {
  std::string text, source;
  bool by_flag = false;
};
Given pick(const std::optional<std::string>& flag, const char* name, Variable variable) {
  if (flag) return {*flag, name, true};
  return {variable_text(variable).text, std::string(variable_info(variable).name), false};
}

Outcome read_size(const std::optional<std::string>& flag, const char* name, std::int64_t& out) {
  if (!flag) return {};
  const auto size = parse_size(*flag, name);
  PLIMSOLL_CALL_FAULT(size.status());
  out = *size;
  return {};
}

}  // namespace

Outcome read_policy(const PlanFlags& flags, planner::PlanPolicy& out) {
  PLIMSOLL_CALL_FAULT(device::check_device());
  auto asked = planner::policy_from_environment();
  PLIMSOLL_CALL_FAULT(asked.status());
  if (flags.planner) {
    const auto policy = planner::parse_policy(*flags.planner, "--planner");
    PLIMSOLL_CALL_FAULT(policy.status());
    asked->policy = *policy;
  }
  if (flags.remedies) {
    const auto remedies = planner::parse_remedies(*flags.remedies, "--remedies");
    PLIMSOLL_CALL_FAULT(remedies.status());
    asked->remedies = *remedies;
  }
  const Outcome sized = read_size(flags.min_size, "--min-size", asked->min_bytes);
  if (!sized.ok()) return sized;
  // Of the environment's choice there is nothing left here: commands print one plan, the same one
  // every time.
  asked->effort = planner::Effort::full;
  if (flags.planning) {
    const auto effort = planner::parse_effort(*flags.planning, "--planning");
    PLIMSOLL_CALL_FAULT(effort.status());
    asked->effort = *effort;
  }
  if (flags.planning_seconds) {
    const auto seconds = parse_number(*flags.planning_seconds, "--planning-seconds");
    PLIMSOLL_CALL_FAULT(seconds.status());
    asked->planning_seconds = *seconds;
  }
  if (flags.without) {
    const auto without = planner::parse_techniques(*flags.without, "--without");
    PLIMSOLL_CALL_FAULT(without.status());
    asked->without = *without;
  }
  out = *asked;
  return {};
}

Outcome read_limit(const PlanFlags& flags,
                   const std::function<Result<std::int64_t>()>& unlimited_peak, std::int64_t& out) {
  out = planner::kUnlimited;
  const Given limit_text = pick(flags.memory_limit, "--memory-limit", Variable::memory_limit);
  if (limit_text.text.empty() && !limit_text.by_flag) return {};
  const auto limit = parse_memory_limit(limit_text.text, limit_text.source);
  PLIMSOLL_CALL_FAULT(limit.status());
  std::int64_t peak = 0;
  if (limit->kind == MemoryLimit::Kind::percent_of_peak) {
    const auto found = unlimited_peak();
    PLIMSOLL_PROGRAM_FAULT(found.status());
    peak = *found;
  }
  out = limit->resolve(device::default_device()->bytes(), peak);
  return {};
}

Outcome check_plan_flags(const PlanFlags& flags) {
  planner::PlanPolicy policy;
  Outcome outcome = read_policy(flags, policy);
  if (!outcome.ok()) return outcome;
  std::int64_t limit = 0;
  return read_limit(flags, []() -> Result<std::int64_t> { return 1; }, limit);
}

Outcome make_tiers(const PlanFlags& flags, memory::Tiers& out) {
  auto options = memory::tier_options_from_environment();
  PLIMSOLL_CALL_FAULT(options.status());
  Outcome outcome = read_size(flags.host_limit, "--host-limit", options->host_bytes);
  if (!outcome.ok()) return outcome;
  outcome = read_size(flags.spill_limit, "--spill-limit", options->spill_bytes);
  if (!outcome.ok()) return outcome;
  if (flags.spill_dir) {
    if (flags.spill_dir->empty()) {
      return Outcome::call_fault(invalid_argument("--spill-dir: '' is not a folder"));
    }
    options->spill_folder = *flags.spill_dir;
  }
  auto tiers = memory::make_tiers(*options, device::default_device());
  PLIMSOLL_CALL_FAULT(tiers.status());
  out = std::move(*tiers);
  return {};
}

Outcome set_link_speed(const PlanFlags& flags, memory::Tiers& tiers) {
  if (!flags.link_speed) return {};
  const auto speed = parse_byte_size(*flags.link_speed, "--link-speed");
  PLIMSOLL_CALL_FAULT(speed.status());
  const auto rate = static_cast<double>(*speed);
  if (tiers.host != nullptr) tiers.host->set_speed({rate, rate, planner::Tier().latency_seconds});
  return {};
}

}  // namespace plimsoll::tools
