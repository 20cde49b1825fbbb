// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/planner.h"

#include <fmt/format.h>

#include <string>

#include "runtime/base/index.h"
#include "runtime/planner/ladder/module_planner.h"

namespace plimsoll::planner {

namespace {

struct PolicyName {
  Policy policy;
  std::string_view name;
};
constexpr PolicyName kPolicies[] = {
    {Policy::default_, "default"},
#define PLIMSOLL_POLICY(enumerator, name, ...) {Policy::enumerator, name},
#include "runtime/planner/policies.def"
#undef PLIMSOLL_POLICY
    {Policy::none, "none"},
};

// In the order of the enumerators.
constexpr std::string_view kEfforts[] = {"full", "first", "background"};

}  // namespace

std::string_view to_string(Policy policy) { return kPolicies[at(policy)].name; }

Result<Policy> parse_policy(std::string_view text, std::string_view what) {
  std::string words;
  for (const auto& [policy, name] : kPolicies) {
    if (text == name) return policy;
    words += words.empty() ? "" : ", ";
    words += name;
  }
  return invalid_argument(fmt::format("{}: '{}' is not one of {}", what, text, words));
}

std::string_view to_string(Effort effort) { return kEfforts[at(effort)]; }

Result<Effort> parse_effort(std::string_view text, std::string_view what) {
  std::string words;
  for (const Effort effort : {Effort::full, Effort::first, Effort::background}) {
    if (text == to_string(effort)) return effort;
    words += words.empty() ? "" : ", ";
    words += to_string(effort);
  }
  return invalid_argument(fmt::format("{}: '{}' is not one of {}", what, text, words));
}

Result<Plan> make_plan(const ir::Module& module, const CostModel& cost_model,
                       const PlanOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(const std::unique_ptr<ModulePlanner> planner,
                            ModulePlanner::create(module, cost_model, options));
  return planner->plan(options.limit_bytes);
}

Result<Floor> find_floor(const ir::Module& module, const CostModel& cost_model,
                         const PlanOptions& options) {
  PlanOptions full = options;
  full.effort = Effort::full;
  PLIMSOLL_ASSIGN_OR_RETURN(const std::unique_ptr<ModulePlanner> planner,
                            ModulePlanner::create(module, cost_model, full));
  return planner->floor();
}

}  // namespace plimsoll::planner
