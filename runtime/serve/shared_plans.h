// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/memory/budget/admission.h"
#include "runtime/serve/executable_cache.h"

namespace plimsoll::executor {

// Which plans of one program the runs that share a budget take: one for the limit it was made
// under, the one that nothing limits, and between that one and the floor one every sixth less. A
// run takes the fastest that fits into what is free when it starts. Plans are made when a run first
// needs them, and kept (executable_cache.h); all compute the same bits. Thread-safe.
class SharedPlans {
 public:
  // Plans for the question's limit, or the budget's where that is lower, on the budget's tiers. No
  // run will ever take more than the question's limit, parameters included. `drift` as for
  // CurrentExecutable.
  static Result<std::shared_ptr<SharedPlans>> create(std::shared_ptr<const Program> program,
                                                     const planner::PlanPolicy& policy,
                                                     const planner::Question& question,
                                                     std::shared_ptr<memory::Budget> budget,
                                                     double drift);

  // A run that may start: its plan, and room for all it takes. The room is given back after what
  // was allocated from it, and goes last.
  struct Entry {
    memory::Admitted admitted;
    std::shared_ptr<const Executable> executable;
  };
  // Blocks until there is room for one of the plans (memory/budget/admission.h says when and for
  // whom). `bound_bytes` of the run's parameters are in device memory already.
  Result<Entry> admit(std::int64_t bound_bytes, const Stop& stop, bool may_wait = true);

  // The plan that was made first.
  const CurrentExecutable& first() const { return *first_; }

  struct Level {
    std::int64_t limit_bytes = 0;
    std::shared_ptr<const Executable> executable;  // null: not planned yet
  };
  // What there is so far, by falling limits.
  std::vector<Level> levels() const;

  SharedPlans(std::shared_ptr<const Program> program, const planner::PlanOptions& options,
              std::shared_ptr<memory::Budget> budget, double drift);

 private:
  class Run;
  // A plan that there is, or may be.
  struct Slot {
    std::int64_t limit = 0;
    std::int64_t planned_for = 0;  // the limit that the planner is asked for
    bool dead = false;             // there is no such plan
  };
  // What is to be made before it is known what fits.
  enum class Missing : std::uint8_t { nothing, top, lower, slot };
  struct Answer {
    Missing missing = Missing::nothing;
    std::size_t slot = 0;                          // that is missing
    std::shared_ptr<const Executable> executable;  // that fits; null: none does
    std::int64_t least_bytes = 0;                  // of device memory, when nothing fits
  };
  Answer find(const memory::BytesPerSpace& free) const noexcept;
  Status make_first(std::int64_t limit);
  Status make(const Answer& missing);
  Status make_top();
  Status make_lower();
  void add_slots(std::int64_t above, std::int64_t below);
  Result<std::shared_ptr<CurrentExecutable>> plan(std::int64_t limit);
  // Null: not planned yet.
  std::shared_ptr<CurrentExecutable> executable_of(const Slot& slot) const noexcept {
    return executables_.find(slot.planned_for, options_.parameters);
  }
  void insert(Slot slot);
  void replan_last();

  const planner::PlanOptions options_;
  const std::shared_ptr<memory::Budget> budget_;
  ExecutableCache executables_;
  std::shared_ptr<CurrentExecutable> first_;
  std::mutex planning_;       // held by the one that plans
  mutable std::mutex mutex_;  // guards what follows; nothing that takes time is done with it
  std::vector<Slot> slots_;   // falling limits
  bool has_top_ = false, has_lower_ = false;
  std::weak_ptr<CurrentExecutable> last_;  // that a run was let in with
};

}  // namespace plimsoll::executor
