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
// model. Thread-safe; one thread plans at a time, and one makes first plans (Effort::first) beside
// it, which so never wait for a long search. Effort::background is the same as Effort::full.
class PlanCache {
 public:
  explicit PlanCache(const ir::Module& module) : module_(module) {}

  // As make_plan and find_floor. Models that answer differently must differ in version(), and must
  // outlive the cache. CANCELLED soon after `stop` says so (null: never).
  Result<std::shared_ptr<const Plan>> plan(const CostModel& cost_model, const PlanOptions& options,
                                           const Cancellation* stop = nullptr,
                                           Refusal refusal = Refusal::explained);
  Result<Floor> floor(const CostModel& cost_model, const PlanOptions& options);
  // Whether what a search found out is kept for the next question: not of very large modules.
  bool keeps_searches() const;

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
  // The planner for some options, whatever their limit.
  struct Search {
    std::mutex mutex;  // guards the rest; taken before the cache's
    std::unique_ptr<ModulePlanner> planner;
    PlanOptions options;
    std::uint64_t version = 0;
    std::optional<Floor> floor;
  };
  // The planner for these options, made when it is not the one kept.
  Result<ModulePlanner*> planner_for(Search& search, const CostModel& cost_model,
                                     const PlanOptions& options, const Cancellation* stop);
  std::shared_ptr<const Plan> find(std::uint64_t version, const PlanOptions& options);

  static constexpr std::size_t kMostPlans = 16;

  const ir::Module& module_;
  Search full_, first_;
  mutable std::mutex mutex_;  // guards what follows; nothing is planned with it
  std::list<Entry> plans_;    // most recently used first
  Statistics statistics_;
};

}  // namespace plimsoll::planner
