// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/plan_cache.h"

#include <utility>

namespace plimsoll::planner {
namespace {

// The searches of a larger module take too much memory to be kept beside its plans.
constexpr std::size_t kMostKeptInstructions = 20000;

// All but the limit.
bool same_search(const PlanOptions& a, const PlanOptions& b) {
  return static_cast<const PlanPolicy&>(a) == b && static_cast<const Machine&>(a) == b &&
         a.parameters == b.parameters;
}

std::size_t instruction_count(const ir::Module& module) {
  std::size_t count = 0;
  for (const auto& computation : module.computations()) count += computation->instructions().size();
  return count;
}

}  // namespace

Result<ModulePlanner*> PlanCache::planner_for(const CostModel& cost_model,
                                              const PlanOptions& options) {
  if (planner_ != nullptr && planner_version_ == cost_model.version() &&
      same_search(planner_options_, options)) {
    return planner_.get();
  }
  planner_.reset();
  floor_.reset();
  PLIMSOLL_ASSIGN_OR_RETURN(planner_, ModulePlanner::create(module_, cost_model, options));
  planner_options_ = options;
  planner_version_ = cost_model.version();
  ++statistics_.searches;
  return planner_.get();
}

Result<std::shared_ptr<const Plan>> PlanCache::plan(const CostModel& cost_model,
                                                    const PlanOptions& options) {
  const std::lock_guard lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->version != cost_model.version() || !(it->options == options)) continue;
    plans_.splice(plans_.begin(), plans_, it);
    ++statistics_.hits;
    return it->plan;
  }
  ++statistics_.misses;
  PLIMSOLL_ASSIGN_OR_RETURN(ModulePlanner * planner, planner_for(cost_model, options));
  Result<Plan> made = planner->plan(options.limit_bytes);
  if (instruction_count(module_) > kMostKeptInstructions) planner_.reset();
  PLIMSOLL_RETURN_IF_ERROR(made.status());
  auto plan = std::make_shared<const Plan>(std::move(*made));
  plans_.push_front({options, cost_model.version(), plan});
  if (plans_.size() > kMostPlans) plans_.pop_back();
  return plan;
}

Result<Floor> PlanCache::floor(const CostModel& cost_model, const PlanOptions& options) {
  const std::lock_guard lock(mutex_);
  if (floor_ && planner_version_ == cost_model.version() &&
      same_search(planner_options_, options)) {
    return *floor_;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ModulePlanner * planner, planner_for(cost_model, options));
  if (!floor_) floor_ = planner->floor();
  const Floor floor = *floor_;
  if (instruction_count(module_) > kMostKeptInstructions) planner_.reset();
  return floor;
}

PlanCache::Statistics PlanCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace plimsoll::planner
