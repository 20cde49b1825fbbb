// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/memory/budget/admission.h"
#include "runtime/serve/current_executable.h"

namespace plimsoll::executor {

// The plans of one program for runs that share a budget: one for the limit it was made under, the
// one that nothing limits, and between that one and the floor one every sixth less. A run takes the
// fastest that fits into what is free when it starts. Plans are made when a run first needs them,
// and kept; all compute the same bits. Thread-safe.
class PlanLadder {
 public:
  // As CurrentExecutable::create; plans for options.limit_bytes, or the budget's limit where that
  // is lower. No run will ever take more than options.limit_bytes, parameters included.
  static Result<std::shared_ptr<PlanLadder>> create(std::shared_ptr<const Program> program,
                                                    const planner::PlanOptions& options,
                                                    std::shared_ptr<memory::Budget> budget,
                                                    double drift);

  // A run that may start: its plan, and room for all it takes. The room is given back after what
  // was allocated from it, and goes last.
  struct Entry {
    memory::Admitted admitted;
    std::shared_ptr<const Executable> executable;
  };
  // Blocks until there is room for one of the plans (memory/admission.h says when and for whom).
  // `bound_bytes` of the run's parameters are in device memory already.
  Result<Entry> admit(std::int64_t bound_bytes, const Stop& stop, bool may_wait = true);

  // The plan that was made first.
  const CurrentExecutable& first() const { return *first_; }

  struct Rung {
    std::int64_t limit_bytes = 0;
    std::shared_ptr<const Executable> executable;  // null: not planned yet
  };
  // What there is so far, by falling limits.
  std::vector<Rung> rungs() const;

  PlanLadder(std::shared_ptr<const Program> program, const planner::PlanOptions& options,
             std::shared_ptr<memory::Budget> budget, double drift,
             std::shared_ptr<CurrentExecutable> first, std::int64_t first_limit);

 private:
  class Run;
  struct Step {
    std::int64_t limit = 0;
    std::shared_ptr<CurrentExecutable> current;  // null: not planned yet
    bool dead = false;                           // there is no such plan
  };
  // What is to be made before it is known what fits.
  enum class Missing : std::uint8_t { nothing, top, lower, step };
  struct Answer {
    Missing missing = Missing::nothing;
    std::size_t step = 0;                          // that is missing
    std::shared_ptr<const Executable> executable;  // that fits; null: none does
    std::int64_t least_bytes = 0;                  // of device memory, when nothing fits
  };
  Answer find(const memory::Room& free) const noexcept;
  Status make(const Answer& missing);
  Status make_top();
  Status make_lower();
  void add_steps(std::int64_t above, std::int64_t below);
  Result<std::shared_ptr<CurrentExecutable>> plan(std::int64_t limit) const;
  void insert(Step step);
  void replan_last();

  const std::shared_ptr<const Program> program_;
  const planner::PlanOptions options_;
  const std::shared_ptr<memory::Budget> budget_;
  const double drift_;
  const std::shared_ptr<CurrentExecutable> first_;
  std::mutex planning_;       // held by the one that plans
  mutable std::mutex mutex_;  // guards what follows; nothing that takes time is done with it
  std::vector<Step> steps_;   // falling limits
  bool has_top_, has_lower_ = false;
  std::weak_ptr<CurrentExecutable> last_;  // that a run was let in with
};

}  // namespace plimsoll::executor
