// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/executor/executable.h"
#include "runtime/program/plan_within.h"

namespace plimsoll::executor {

// What limits the plans: the question and the budget, as both are when a plan is made, or the
// question alone.
enum class LimitedBy : std::uint8_t { question_and_budget, question };

// The executable of a program under one set of options, planned again as its measured times come
// in: never inside a run, at most as often as MeasuredCosts publishes, and only where the plan pays
// for memory (another one could not be faster otherwise), and never where codecs that change bits
// are allowed. All executables it gives compute the same bits within the same limit. Thread-safe.
class CurrentExecutable {
 public:
  // Plans (plan_within). `drift` is the share by which measured times may differ from predicted
  // ones; 0: the first plan stays.
  static Result<std::shared_ptr<CurrentExecutable>> create(std::shared_ptr<const Program> program,
                                                           const planner::PlanOptions& options,
                                                           std::shared_ptr<memory::Budget> budget,
                                                           double drift, LimitedBy limited_by = {});
  // With the first plan made before, for these options.
  static Result<std::shared_ptr<CurrentExecutable>> create(ProgramPlan first,
                                                           const planner::PlanOptions& options,
                                                           std::shared_ptr<memory::Budget> budget,
                                                           double drift, LimitedBy limited_by = {});

  // The executable for the next run, planned again first where that is due. One thread plans while
  // the others go on with the old one; when there is no plan any more (a limit that was lowered),
  // the old one stays, too.
  std::shared_ptr<const Executable> next();
  // The executable that next() gave last.
  std::shared_ptr<const Executable> get() const;
  // What its plan takes, and what that of an unlimited run would, by everything measured so far:
  // beside each other they say what the limit costs. The plan's own predictions before anything was
  // measured.
  struct Expectation {
    double seconds = 0, unlimited_seconds = 0;
  };
  Expectation expectation() const;
  std::int64_t replans() const { return replans_.load(std::memory_order_relaxed); }

  CurrentExecutable(std::shared_ptr<const Program> program, const planner::PlanOptions& options,
                    std::shared_ptr<memory::Budget> budget, double drift, LimitedBy limited_by)
      : program_(std::move(program)),
        options_(options),
        budget_(std::move(budget)),
        drift_(drift),
        limited_by_(limited_by) {}

 private:
  // The options of a plan that is made now.
  planner::PlanOptions options_now() const;

  const std::shared_ptr<const Program> program_;  // in the form that fits
  const planner::PlanOptions options_;
  const std::shared_ptr<memory::Budget> budget_;
  const double drift_;
  const LimitedBy limited_by_;
  std::mutex planning_;                    // held by the one that plans
  std::atomic<std::uint64_t> version_{0};  // of the cost model that the plan was last made for
  std::atomic<std::int64_t> replans_{0};
  mutable std::mutex mutex_;  // guards executable_
  std::shared_ptr<const Executable> executable_;
  mutable std::mutex expecting_;  // guards what follows
  mutable Expectation expectation_;
  mutable std::shared_ptr<const Executable> expected_;  // what the expectation is of
  mutable std::shared_ptr<const planner::Plan> unlimited_;
  mutable std::int64_t expected_runs_ = 0;  // measured runs it knows
};

}  // namespace plimsoll::executor
