// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/planner.h"

#include "runtime/planner/ladder/module_planner.h"

namespace plimsoll::planner {

std::string_view to_string(Policy policy) {
  switch (policy) {
    case Policy::greedy:
      return "greedy";
    case Policy::sqrt:
      return "sqrt";
    case Policy::none:
      return "none";
    default:
      return "default";
  }
}

std::optional<Policy> parse_policy(std::string_view text) {
  for (const Policy policy : {Policy::default_, Policy::greedy, Policy::sqrt, Policy::none}) {
    if (text == to_string(policy)) return policy;
  }
  return std::nullopt;
}

Result<Plan> make_plan(const ir::Module& module, const CostModel& cost_model,
                       const PlanOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::unique_ptr<ModulePlanner> planner,
                            ModulePlanner::create(module, cost_model, options));
  return planner->plan(options.limit_bytes);
}

Result<Floor> find_floor(const ir::Module& module, const CostModel& cost_model,
                         const PlanOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::unique_ptr<ModulePlanner> planner,
                            ModulePlanner::create(module, cost_model, options));
  return planner->floor();
}

}  // namespace plimsoll::planner
