// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/plan_cache.h"

#include <unordered_set>
#include <utility>

namespace plimsoll::planner {
namespace {

// The searches of a module of more operations take too much memory to be kept beside its plans.
constexpr std::size_t kMostKeptOps = 10'000;

// All but the limit.
bool same_search(const PlanOptions& a, const PlanOptions& b) {
  return static_cast<const PlanPolicy&>(a) == b && static_cast<const Machine&>(a) == b &&
         a.parameters == b.parameters;
}

// What a plan has steps of: what is in a kernel does not count.
std::size_t op_count(const ir::Computation& computation,
                     std::unordered_set<const ir::Computation*>& seen) {
  if (!seen.insert(&computation).second) return 0;
  std::size_t count = computation.instructions().size();
  for (const auto& instruction : computation.instructions()) {
    if (ir::op_info(instruction->opcode()).op_class != ir::OpClass::control) continue;
    for (const ir::Computation* callee : instruction->called_computations()) {
      count += op_count(*callee, seen);
    }
  }
  return count;
}

}  // namespace

Result<ModulePlanner*> PlanCache::planner_for(Search& search, const CostModel& cost_model,
                                              const PlanOptions& options,
                                              const Cancellation* stop) {
  if (search.planner != nullptr && search.version == cost_model.version() &&
      same_search(search.options, options)) {
    return search.planner.get();
  }
  search.planner.reset();
  search.floor.reset();
  PLIMSOLL_ASSIGN_OR_RETURN(search.planner,
                            ModulePlanner::create(module_, cost_model, options, stop));
  search.options = options;
  search.version = cost_model.version();
  const std::lock_guard lock(mutex_);
  ++statistics_.searches;
  return search.planner.get();
}

std::shared_ptr<const Plan> PlanCache::find(std::uint64_t version, const PlanOptions& options) {
  const std::lock_guard lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (it->version != version || !(it->options == options)) continue;
    plans_.splice(plans_.begin(), plans_, it);
    ++statistics_.hits;
    return it->plan;
  }
  return nullptr;
}

Result<std::shared_ptr<const Plan>> PlanCache::plan(const CostModel& cost_model,
                                                    const PlanOptions& asked,
                                                    const Cancellation* stop, Refusal refusal) {
  PlanOptions options = asked;
  if (options.effort == Effort::background) options.effort = Effort::full;
  const std::uint64_t version = cost_model.version();
  if (auto known = find(version, options)) return known;
  Search& search = options.effort == Effort::first ? first_ : full_;
  const std::lock_guard planning(search.mutex);
  // Another thread may have made it meanwhile.
  if (auto known = find(version, options)) return known;
  {
    const std::lock_guard lock(mutex_);
    ++statistics_.misses;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ModulePlanner * planner,
                            planner_for(search, cost_model, options, stop));
  Result<Plan> made = planner->plan(options.limit_bytes, stop, refusal);
  if (!keeps_searches() || made.status().code() == StatusCode::cancelled) {
    search.planner.reset();
  }
  PLIMSOLL_RETURN_IF_ERROR(made.status());
  auto plan = std::make_shared<const Plan>(std::move(*made));
  const std::lock_guard lock(mutex_);
  plans_.push_front({options, version, plan});
  if (plans_.size() > kMostPlans) plans_.pop_back();
  return plan;
}

Result<Floor> PlanCache::floor(const CostModel& cost_model, const PlanOptions& asked) {
  PlanOptions options = asked;
  options.effort = Effort::full;
  const std::lock_guard planning(full_.mutex);
  if (full_.floor && full_.version == cost_model.version() && same_search(full_.options, options)) {
    return *full_.floor;
  }
  PLIMSOLL_ASSIGN_OR_RETURN(ModulePlanner * planner,
                            planner_for(full_, cost_model, options, nullptr));
  if (!full_.floor) full_.floor = planner->floor();
  const Floor floor = *full_.floor;
  if (!keeps_searches()) full_.planner.reset();
  return floor;
}

bool PlanCache::keeps_searches() const {
  std::unordered_set<const ir::Computation*> seen;
  return module_.entry() == nullptr || op_count(*module_.entry(), seen) <= kMostKeptOps;
}

PlanCache::Statistics PlanCache::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace plimsoll::planner
