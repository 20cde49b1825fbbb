// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/memory/tiers.h"
#include "runtime/planner/planner.h"
#include "tools/command.h"

namespace plimsoll::tools {

// The flags that `plan`, `run` and `opt` share. Those not given come from the environment; one that
// is given and empty is an error.
struct PlanFlags {
  std::optional<std::string> memory_limit, planner, remedies, min_size, planning_seconds;
  std::optional<std::string> host_limit, spill_dir, spill_limit, link_speed;
  bool as_written = false;  // skip the optimizing passes
};
void add_plan_flags(CLI::App* command, PlanFlags& flags);
// Those that need a place to move values to: `plan` and `run`.
void add_tier_flags(CLI::App* command, PlanFlags& flags);

// The options that the flags, else the environment ask for, without tiers and parameters; no limit:
// kUnlimited. Asks for `unlimited_peak` under the options found so far, only when the limit is a
// share of it.
Outcome plan_options(
    const PlanFlags& flags,
    const std::function<Result<std::int64_t>(const planner::PlanOptions&)>& unlimited_peak,
    planner::PlanOptions& out);

// The tiers that the flags, else the environment ask for.
Outcome make_tiers(const PlanFlags& flags, memory::Tiers& out);
// Gives the host tier the speed that --link-speed says, if it is given.
Outcome set_link_speed(const PlanFlags& flags, memory::Tiers& tiers);

}  // namespace plimsoll::tools
