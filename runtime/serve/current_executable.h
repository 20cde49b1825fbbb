// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/executor/executable.h"
#include "runtime/program/plan_within.h"
#include "runtime/serve/background_worker.h"
#include "runtime/serve/plan_trial.h"

namespace plimsoll::executor {

// What limits the plans: the question and the budget, as both are when a plan is made, or the
// question alone.
enum class LimitedBy : std::uint8_t { question_and_budget, question };

// The executable of a program under one set of options. With Effort::background it begins with a
// first plan, and where that pays for memory the plan of full effort is made in the background
// (background_worker.h), kernels included, and taken from the next run on if it is faster. Where
// measured times have drifted plans are made again there, too: at most as often as MeasuredCosts
// publishes, and only where the plan pays for memory (another one could not be faster otherwise).
// Never where codecs that change bits are allowed: effort is full before the first run then, and
// that plan stays. Prices are of kernels and transfers one by one, so what they say is put to the
// test (plan_trial.h): a plan that has taken another one's place because times had drifted runs in
// turns with that one, and one that swaps or encodes with the plan that does less of it, until
// enough runs of both were timed; the faster one stays. All executables it gives compute the same
// bits within the same limit. What fails in the background leaves the executable that is there.
// Thread-safe. Its destruction stops what is being planned for it, and waits for that.
class CurrentExecutable {
 public:
  // Plans (plan_within). `drift` is the share by which measured times may differ from predicted
  // ones; 0: they decide nothing.
  static Result<std::shared_ptr<CurrentExecutable>> create(std::shared_ptr<const Program> program,
                                                           const planner::PlanOptions& options,
                                                           std::shared_ptr<memory::Budget> budget,
                                                           double drift, LimitedBy limited_by = {});
  // With the first plan made before, for these options; another one where it does not fit any more.
  static Result<std::shared_ptr<CurrentExecutable>> create(ProgramPlan first,
                                                           const planner::PlanOptions& options,
                                                           std::shared_ptr<memory::Budget> budget,
                                                           double drift, LimitedBy limited_by = {});

  // The executable for the next run. Has another plan made in the background where that is due;
  // never waits for one. Where there is no plan any more (a limit that was lowered), the old one
  // stays.
  std::shared_ptr<const Executable> next();
  // The executable that next() gave last, or whose turn it is since.
  std::shared_ptr<const Executable> get() const;
  // Returns when nothing is being planned in the background, nor will be before next() is called
  // again: what get() gives is then decided. Not from a job of the background.
  void wait_for_plans() const;
  // Whether a plan is being made in the background, and whether two take turns: until neither, it
  // is not decided which plan stays.
  bool is_planning() const;
  bool is_trying() const;
  // What its plan takes, and what that of an unlimited run would, by everything measured so far:
  // beside each other they say what the limit costs. The plan's own predictions before anything was
  // measured.
  struct Expectation {
    double seconds = 0, unlimited_seconds = 0;
  };
  Expectation expectation() const;
  // Plans that have taken another one's place: because times had drifted, and after a first plan.
  std::int64_t replans() const { return replans_.load(std::memory_order_relaxed); }
  std::int64_t improvements() const { return improvements_.load(std::memory_order_relaxed); }
  // Trials that are over.
  std::int64_t trials() const { return trials_.load(std::memory_order_relaxed); }

  CurrentExecutable(const planner::PlanOptions& options, std::shared_ptr<memory::Budget> budget,
                    double drift, LimitedBy limited_by);
  ~CurrentExecutable();

 private:
  // Why another plan is made, as bits.
  enum Reason : unsigned { kImprove = 1, kDrift = 2, kFewerRemedies = 4 };

  // As `create`, whether or not the plan fits.
  static Result<std::shared_ptr<CurrentExecutable>> open(ProgramPlan first,
                                                         const planner::PlanOptions& options,
                                                         std::shared_ptr<memory::Budget> budget,
                                                         double drift, LimitedBy limited_by);
  // Of a plan that is made now: full effort.
  planner::PlanOptions options_now() const;
  // The one that stays unless a trial says otherwise.
  std::shared_ptr<const Executable> incumbent() const;
  // Who takes the next run, and whether another plan is due.
  std::shared_ptr<const Executable> decide();
  // Counts a run. True while a trial goes on.
  bool advance_trial();
  // Whether it is time to ask for a plan with fewer remedies; once for each executable and set.
  bool wants_fewer_remedies();
  void request(Reason reason);
  void work(const Cancellation& stop);
  void end_planning();  // with requesting_ held
  void plan_again(unsigned reasons, const Cancellation& stop);
  void challenge_with_fewer_remedies(const Cancellation& stop);
  // With mutex_ held.
  void install(std::shared_ptr<const Executable> executable);
  void begin_trial(std::shared_ptr<const Executable> challenger);
  bool is_faster(const ProgramPlan& made, const Executable& now,
                 const planner::PlanOptions& options) const;

  const planner::PlanOptions options_;
  const std::shared_ptr<memory::Budget> budget_;
  const double drift_;
  const LimitedBy limited_by_;
  // Whose forms are looked at for better plans.
  std::shared_ptr<const Program> asked_;
  std::atomic<std::uint64_t> version_{0};  // of the cost model that the plan was last made for
  std::atomic<std::int64_t> replans_{0}, improvements_{0}, trials_{0};
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<PlanTrial> trial_;  // of executable_ and another one; null: none goes on
  planner::Remedies remedies_;        // that plans of full effort may use
  std::int64_t runs_ = 0;             // since executable_ came or a trial of it ended
  std::size_t fewer_tried_ = 0;       // sets of fewer remedies that executable_ was up against
  mutable std::mutex expecting_;      // guards what follows
  mutable Expectation expectation_;
  mutable std::shared_ptr<const Executable> expected_;  // what the expectation is of
  mutable std::shared_ptr<const planner::Plan> unlimited_;
  mutable std::int64_t expected_runs_ = 0;  // measured runs it knows
  mutable std::mutex requesting_;           // guards what follows
  mutable std::condition_variable decided_;
  unsigned wanted_ = 0;       // reasons that nobody has looked at yet
  bool is_planning_ = false;  // there is a job, which looks at wanted_ before it ends
  std::shared_ptr<BackgroundWorker> worker_;  // null until something is wanted
  std::shared_ptr<BackgroundWorker::Job> job_;
};

}  // namespace plimsoll::executor
