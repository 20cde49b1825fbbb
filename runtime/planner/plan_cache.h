// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// The plans of one module, which must outlive it: asking again costs a look-up, asking for another
// limit what a ModulePlanner takes for it. The key is the options and the version of the cost
// model. Thread-safe; one thread plans at a time.
class PlanCache {
 public:
  explicit PlanCache(const ir::Module& module) : module_(module) {}

  // As make_plan and find_floor. Models that answer differently must differ in version(), and must
  // outlive the cache.
  Result<std::shared_ptr<const Plan>> plan(const CostModel& cost_model, const PlanOptions& options);
  Result<Floor> floor(const CostModel& cost_model, const PlanOptions& options);

  struct Statistics {
    std::int64_t hits = 0, misses = 0;  // of plan()
    std::int64_t searches = 0;          // ModulePlanners made
  };
  Statistics statistics() const;

 private:
  struct Entry {
    PlanOptions options;
    std::uint64_t version = 0;
    std::shared_ptr<const Plan> plan;
  };
  // The planner for these options (whatever their limit), made when it is not the one kept.
  Result<ModulePlanner*> planner_for(const CostModel& cost_model, const PlanOptions& options);

  static constexpr std::size_t kMostPlans = 16;

  const ir::Module& module_;
  mutable std::mutex mutex_;
  std::list<Entry> plans_;  // most recently used first
  std::unique_ptr<ModulePlanner> planner_;
  PlanOptions planner_options_;
  std::uint64_t planner_version_ = 0;
  std::optional<Floor> floor_;  // of planner_
  Statistics statistics_;
};

}  // namespace plimsoll::planner
