// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"
#include "runtime/memory/tiers.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "tools/command.h"

namespace plimsoll::tools {

// The flags that `plan`, `run` and `opt` share. Those not given come from the environment; one that
// is given and empty is an error.
struct PlanFlags {
  std::optional<std::string> memory_limit, planner, remedies, min_size, planning, planning_seconds;
  std::optional<std::string> without;
  std::optional<std::string> host_limit, spill_dir, spill_limit, link_speed;
  bool as_written = false;                    // skip the optimizing passes
  std::int64_t replicas = 0, partitions = 0;  // 0: as the program says
  std::vector<std::string> shardings;         // NAME={devices=...}
  bool plans_alone = false;                   // other participants make plans of their own
  std::optional<planner::CollectiveSpeeds> collective_speeds;  // what connecting them has measured
  std::optional<std::int64_t> participants_here;               // on this machine; none: all
};
void add_plan_flags(CLI::App* command, PlanFlags& flags);
// Those that need a place to move values to: `plan` and `run`.
void add_tier_flags(CLI::App* command, PlanFlags& flags);

// How many participants a program has, and how they hold its parameters.
void add_topology_flags(CLI::App* command, PlanFlags& flags);
// Takes over what they say.
Outcome set_topology(const PlanFlags& flags, ir::Module& module);
// And makes a program of whole arrays that of one partition.
Outcome partition_by(const PlanFlags& flags, ir::Module& module);

// The policy that the flags, else the environment ask for.
Outcome read_policy(const PlanFlags& flags, planner::PlanPolicy& out);
// The limit that they ask for; none: kUnlimited. Asks for `unlimited_peak` only when the limit is a
// share of it.
Outcome read_limit(const PlanFlags& flags,
                   const std::function<Result<std::int64_t>()>& unlimited_peak, std::int64_t& out);
// Whether both can be read, before anything takes time.
Outcome check_plan_flags(const PlanFlags& flags);

// The tiers that the flags, else the environment ask for.
Outcome make_tiers(const PlanFlags& flags, memory::Tiers& out);
// Gives the host tier the speed that --link-speed says, if it is given.
Outcome set_link_speed(const PlanFlags& flags, memory::Tiers& tiers);

}  // namespace plimsoll::tools
