// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/current_executable.h"

#include <algorithm>
#include <utility>

#include "runtime/program/calibration.h"

namespace plimsoll::executor {
namespace {

std::int64_t limit_now(const planner::Question& question, const memory::Budget& budget,
                       LimitedBy limited_by) {
  return limited_by == LimitedBy::question ? question.limit_bytes
                                           : std::min(question.limit_bytes, budget.limit());
}

planner::PlanOptions at_limit(const planner::PlanOptions& options, std::int64_t limit_bytes) {
  planner::PlanOptions made = options;
  made.limit_bytes = limit_bytes;
  return made;
}

bool costs_time(const planner::Plan& plan) {
  return plan.predicted_seconds > plan.unlimited_seconds;
}

}  // namespace

CurrentExecutable::CurrentExecutable(const planner::PlanOptions& options,
                                     std::shared_ptr<memory::Budget> budget, double drift,
                                     LimitedBy limited_by)
    : options_(options), budget_(std::move(budget)), drift_(drift), limited_by_(limited_by) {}

CurrentExecutable::~CurrentExecutable() {
  std::shared_ptr<BackgroundWorker::Job> job;
  {
    const std::lock_guard lock(requesting_);
    job = job_;
  }
  if (job != nullptr) worker_->cancel(job);
}

Result<std::shared_ptr<CurrentExecutable>> CurrentExecutable::create(
    std::shared_ptr<const Program> program, const planner::PlanOptions& options,
    std::shared_ptr<memory::Budget> budget, double drift, LimitedBy limited_by) {
  PLIMSOLL_ASSIGN_OR_RETURN(
      ProgramPlan first,
      plan_within(program, at_limit(options, limit_now(options, *budget, limited_by))));
  return create(std::move(first), options, std::move(budget), drift, limited_by);
}

Result<std::shared_ptr<CurrentExecutable>> CurrentExecutable::create(
    ProgramPlan first, const planner::PlanOptions& options, std::shared_ptr<memory::Budget> budget,
    double drift, LimitedBy limited_by) {
  const std::shared_ptr<const Program> asked = first.asked != nullptr ? first.asked : first.program;
  for (int plans = 1;; ++plans) {
    PLIMSOLL_ASSIGN_OR_RETURN(auto made,
                              open(std::move(first), options, budget, drift, limited_by));
    const std::int64_t left = limit_now(options, *budget, limited_by);
    if (plans == kMostFirstPlans || made->get()->plan().peak_bytes <= left) return made;
    PLIMSOLL_ASSIGN_OR_RETURN(first, plan_within(asked, at_limit(options, left)));
  }
}

Result<std::shared_ptr<CurrentExecutable>> CurrentExecutable::open(
    ProgramPlan first, const planner::PlanOptions& options, std::shared_ptr<memory::Budget> budget,
    double drift, LimitedBy limited_by) {
  first.program->costs().assume_tiers(options);
  auto made = std::make_shared<CurrentExecutable>(options, std::move(budget), drift, limited_by);
  made->asked_ = first.asked != nullptr ? first.asked : first.program;
  made->version_ = first.costs_version;
  // A plan that costs nothing in the form that is fastest without a limit can't be improved.
  const bool may_improve = first.is_first && options.effort == planner::Effort::background &&
                           (costs_time(*first.plan) || first.program != made->asked_);
  PLIMSOLL_ASSIGN_OR_RETURN(made->executable_, Executable::create(std::move(first)));
  made->executable_->enable_sampling(drift > 0);
  if (may_improve) made->request(kImprove);
  return made;
}

planner::PlanOptions CurrentExecutable::options_now() const {
  planner::PlanOptions options = at_limit(options_, limit_now(options_, *budget_, limited_by_));
  options.effort = planner::Effort::full;
  return options;
}

std::shared_ptr<const Executable> CurrentExecutable::get() const {
  const std::lock_guard lock(mutex_);
  return executable_;
}

CurrentExecutable::Expectation CurrentExecutable::expectation() const {
  const std::lock_guard lock(expecting_);
  const std::shared_ptr<const Executable> now = get();
  const planner::MeasuredCosts& costs = now->program().costs();
  const std::int64_t runs = costs.runs();
  if (expected_ == now && expected_runs_ == runs) return expectation_;
  const planner::Plan& plan = now->plan();
  expectation_ = {plan.predicted_seconds, plan.unlimited_seconds};
  if (runs > 0) {
    const planner::PlanOptions options = options_now();
    if (expected_ != now) {
      planner::PlanOptions unlimited = at_limit(options, planner::kUnlimited);
      // The same plan as with more effort, and no wait for the background.
      unlimited.effort = planner::Effort::first;
      costs.apply_links(unlimited);
      // In the form that an unlimited run takes: kernels of its own are priced as those of their
      // class were measured in this one.
      const auto made = asked_->plan(unlimited);
      unlimited_ = made.ok() ? *made : nullptr;
    }
    if (unlimited_ != nullptr) {
      expectation_ = {costs.seconds_of(plan, options), costs.seconds_of(*unlimited_, options)};
    }
  }
  expected_ = now;
  expected_runs_ = runs;
  return expectation_;
}

std::shared_ptr<const Executable> CurrentExecutable::next() {
  std::shared_ptr<const Executable> now = get();
  // What is stored with loss decides bits, and times must not.
  if (!(drift_ > 0) || options_.remedies.lossy) return now;
  planner::MeasuredCosts& costs = now->program().costs();
  if (costs.update(drift_) && now->program().is_calibrated() && costs.contradict_base()) {
    doubt_machine_speeds(now->program().provider());
  }
  const std::uint64_t version = costs.version();
  if (version_.exchange(version, std::memory_order_relaxed) == version) return now;
  const planner::Plan& plan = now->plan();
  // Transfers and codecs that were thought to cost nothing may cost something.
  const bool keeps_all = plan.counts.all_encodes() + plan.counts.swap_out == 0;
  if (keeps_all && !costs_time(plan)) return now;
  request(kDrift);
  return now;
}

void CurrentExecutable::wait_for_plans() const {
  std::unique_lock lock(requesting_);
  decided_.wait(lock, [&] { return !is_planning_; });
}

// One job at a time, which does what is wanted meanwhile, too.
void CurrentExecutable::request(Reason reason) {
  const std::lock_guard lock(requesting_);
  wanted_ |= reason;
  if (is_planning_) return;
  if (worker_ == nullptr) worker_ = BackgroundWorker::shared();
  is_planning_ = true;
  job_ = worker_->submit([this](const Cancellation& stop) { work(stop); });
  if (job_ == nullptr) is_planning_ = false;
}

void CurrentExecutable::work(const Cancellation& stop) {
  while (true) {
    unsigned reasons = 0;
    {
      const std::lock_guard lock(requesting_);
      reasons = std::exchange(wanted_, 0);
      if (reasons == 0 || stop.is_cancelled()) {
        is_planning_ = false;
        decided_.notify_all();
        return;
      }
    }
    plan_again(reasons, stop);
  }
}

// The limit may be lowered while a plan for it is made: another one is made then, until one fits
// into the limit as it is when it is taken.
void CurrentExecutable::plan_again(unsigned reasons, const Cancellation& stop) {
  const std::shared_ptr<const Executable> now = get();
  const bool improves = (reasons & kImprove) != 0;
  const std::shared_ptr<const Program> program = improves ? asked_ : now->shared_program();
  while (!stop.is_cancelled()) {
    planner::PlanOptions options = options_now();
    program->costs().apply_links(options);
    Result<ProgramPlan> made = plan_within(program, options, &stop);
    if (!made.ok() || stop.is_cancelled()) return;
    if ((reasons & kDrift) == 0 && !is_faster(*made, *now, options)) return;
    const std::uint64_t version = made->costs_version;
    Result<std::shared_ptr<const Executable>> executable = Executable::create(std::move(*made));
    if (!executable.ok()) return;
    (*executable)->enable_sampling(drift_ > 0);
    const std::lock_guard lock(mutex_);
    if ((*executable)->plan().peak_bytes > options_now().limit_bytes) continue;
    (improves ? improvements_ : replans_).fetch_add(1, std::memory_order_relaxed);
    version_ = version;
    executable_ = std::move(*executable);
    return;
  }
}

// By the same costs: measured ones where both are of one form, as runs of the old plan have
// measured its kernels alone.
bool CurrentExecutable::is_faster(const ProgramPlan& made, const Executable& now,
                                  const planner::PlanOptions& options) const {
  const planner::MeasuredCosts& costs = now.program().costs();
  if (made.program.get() == &now.program() && costs.runs() > 0) {
    return costs.seconds_of(*made.plan, options) < costs.seconds_of(now.plan(), options);
  }
  return made.plan->predicted_seconds < now.plan().predicted_seconds;
}

}  // namespace plimsoll::executor
