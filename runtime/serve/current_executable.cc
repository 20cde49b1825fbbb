// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/current_executable.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/program/calibration.h"
#include "runtime/serve/plans_under_way.h"

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

// Runs after which a plan is taken to stay: its kernels have been measured.
constexpr std::int64_t kSettled = 8;

// A plan that is said to take more than this many times as long is not worth a trial.
constexpr double kHopeless = 1.5;

PlansUnderWay plans_under_way;

// Participants run in step, and are not to wait for each other's trials.
bool may_be_tried(const planner::Plan& plan) { return plan.counts.collective == 0; }

// Whether they do the same at the same places, as the same search under other prices often finds.
bool is_same(const planner::Plan& a, const planner::Plan& b) {
  const auto same_step = [](const planner::Step& one, const planner::Step& other) {
    return one.kind == other.kind && one.instruction == other.instruction &&
           one.synchronous == other.synchronous && one.sliced == other.sliced &&
           std::equal(one.callees.begin(), one.callees.end(), other.callees.begin(),
                      other.callees.end(),
                      [](const auto& callee, const auto& its) { return is_same(*callee, *its); });
  };
  const auto same_buffer = [](const planner::Buffer& one, const planner::Buffer& other) {
    return one.placement == other.placement && one.offset == other.offset;
  };
  return a.computation == b.computation && a.peak_bytes == b.peak_bytes &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step) &&
         std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(),
                    same_buffer);
}

// Sets of `allowed` remedies without some that `plan` uses, the fewest first.
std::vector<planner::Remedies> fewer_remedies(const planner::Plan& plan,
                                              const planner::Remedies& allowed) {
  std::vector<planner::Remedies> sets;
  const bool swaps = plan.counts.swap_out > 0, encodes = plan.counts.all_encodes() > 0;
  const auto add = [&](bool compress, bool swap) {
    planner::Remedies set = allowed;
    set.compress = compress;
    set.swap = swap;
    sets.push_back(set);
  };
  if (swaps || encodes) add(allowed.compress && !encodes, allowed.swap && !swaps);
  if (swaps && encodes) {
    add(true, false);
    add(false, true);
  }
  return sets;
}

}  // namespace

CurrentExecutable::CurrentExecutable(const planner::PlanOptions& options,
                                     std::shared_ptr<memory::Budget> budget, double drift,
                                     LimitedBy limited_by)
    : options_(options),
      budget_(std::move(budget)),
      drift_(drift),
      limited_by_(limited_by),
      remedies_(options.remedies) {}

CurrentExecutable::~CurrentExecutable() {
  std::shared_ptr<BackgroundWorker::Job> job;
  {
    const std::lock_guard lock(requesting_);
    job = job_;
  }
  if (job != nullptr) worker_->cancel(job);
  // It never began.
  if (is_planning_) plans_under_way.end();
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
  const std::lock_guard lock(mutex_);
  options.remedies = remedies_;
  return options;
}

std::shared_ptr<const Executable> CurrentExecutable::get() const {
  const std::lock_guard lock(mutex_);
  return trial_ != nullptr ? trial_->turn() : executable_;
}

std::shared_ptr<const Executable> CurrentExecutable::incumbent() const {
  const std::lock_guard lock(mutex_);
  return executable_;
}

void CurrentExecutable::install(std::shared_ptr<const Executable> executable) {
  trial_ = nullptr;
  executable_ = std::move(executable);
  runs_ = 0;
  fewer_tried_ = 0;
}

void CurrentExecutable::begin_trial(std::shared_ptr<const Executable> challenger) {
  trial_ = std::make_unique<PlanTrial>(executable_, std::move(challenger));
}

bool CurrentExecutable::advance_trial() {
  const std::int64_t limit = limit_now(options_, *budget_, limited_by_);
  const std::lock_guard lock(mutex_);
  ++runs_;
  if (trial_ == nullptr) return false;
  const bool fits = trial_->challenger()->plan().peak_bytes <= limit;
  trial_->pause(plans_under_way.any());
  if (fits && !trial_->advance()) return true;
  trials_.fetch_add(1, std::memory_order_relaxed);
  const std::unique_ptr<PlanTrial> trial = std::move(trial_);
  runs_ = 0;
  if (!fits || !trial->challenger_wins()) return false;
  const planner::Plan& lost = executable_->plan();
  const planner::Plan& won = trial->challenger()->plan();
  // What was left out stays out.
  if (lost.counts.swap_out > 0 && won.counts.swap_out == 0) remedies_.swap = false;
  if (lost.counts.all_encodes() > 0 && won.counts.all_encodes() == 0) remedies_.compress = false;
  install(trial->challenger());
  return false;
}

bool CurrentExecutable::wants_fewer_remedies() {
  const std::lock_guard lock(mutex_);
  const planner::Plan& plan = executable_->plan();
  if (runs_ != kSettled || !may_be_tried(plan)) return false;
  return fewer_tried_ < fewer_remedies(plan, remedies_).size();
}

CurrentExecutable::Expectation CurrentExecutable::expectation() const {
  const std::lock_guard lock(expecting_);
  const std::shared_ptr<const Executable> now = incumbent();
  const planner::MeasuredCosts& costs = now->program().costs();
  const std::int64_t runs = costs.runs();
  if (expected_ == now && expected_runs_ == runs) return expectation_;
  const planner::Plan& plan = now->plan();
  expectation_ = {plan.predicted_seconds, plan.unlimited_seconds};
  if (expected_ != now) unlimited_ = nullptr;
  if (runs > 0) {
    const planner::PlanOptions options = options_now();
    if (unlimited_ == nullptr) {
      planner::PlanOptions unlimited = at_limit(options, planner::kUnlimited);
      // The same plan as with more effort, and no wait for the background.
      unlimited.effort = planner::Effort::first;
      costs.apply_links(unlimited);
      // In the form that an unlimited run takes.
      const auto made = asked_->plan(unlimited);
      unlimited_ = made.ok() ? *made : nullptr;
    }
    if (unlimited_ != nullptr) {
      expectation_ = {costs.seconds_of(plan, options),
                      asked_->costs().seconds_of(*unlimited_, options)};
    }
  }
  expected_ = now;
  expected_runs_ = runs;
  return expectation_;
}

std::shared_ptr<const Executable> CurrentExecutable::next() {
  // What is stored with loss decides bits, and times must not.
  if (!(drift_ > 0) || options_.remedies.lossy) return get();
  std::shared_ptr<const Executable> next = decide();
  // What is planned meanwhile would be measured, too.
  next->enable_sampling(!plans_under_way.any());
  return next;
}

std::shared_ptr<const Executable> CurrentExecutable::decide() {
  if (advance_trial()) return get();
  std::shared_ptr<const Executable> now = incumbent();
  planner::MeasuredCosts& costs = now->program().costs();
  if (costs.update(drift_) && now->program().is_calibrated() && costs.contradict_base()) {
    doubt_machine_speeds(now->program().provider());
  }
  if (wants_fewer_remedies()) request(kFewerRemedies);
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

bool CurrentExecutable::is_planning() const {
  const std::lock_guard lock(requesting_);
  return is_planning_;
}

bool CurrentExecutable::is_trying() const {
  const std::lock_guard lock(mutex_);
  return trial_ != nullptr;
}

// One job at a time, which does what is wanted meanwhile, too.
void CurrentExecutable::request(Reason reason) {
  const std::lock_guard lock(requesting_);
  wanted_ |= reason;
  if (is_planning_) return;
  if (worker_ == nullptr) worker_ = BackgroundWorker::shared();
  is_planning_ = true;
  plans_under_way.begin();
  job_ = worker_->submit([this](const Cancellation& stop) { work(stop); });
  if (job_ == nullptr) end_planning();
}

void CurrentExecutable::end_planning() {
  is_planning_ = false;
  plans_under_way.end();
  decided_.notify_all();
}

void CurrentExecutable::work(const Cancellation& stop) {
  while (true) {
    unsigned reasons = 0;
    {
      const std::lock_guard lock(requesting_);
      reasons = std::exchange(wanted_, 0);
      if (reasons == 0 || stop.is_cancelled()) return end_planning();
    }
    if ((reasons & (kImprove | kDrift)) != 0) plan_again(reasons, stop);
    if ((reasons & kFewerRemedies) != 0) challenge_with_fewer_remedies(stop);
  }
}

// The limit may be lowered while a plan for it is made: another one is made then, until one fits
// into the limit as it is when it is taken.
void CurrentExecutable::plan_again(unsigned reasons, const Cancellation& stop) {
  const std::shared_ptr<const Executable> now = incumbent();
  const bool improves = (reasons & kImprove) != 0;
  while (!stop.is_cancelled()) {
    planner::PlanOptions options = options_now();
    asked_->costs().apply_links(options);
    Result<ProgramPlan> made = plan_within(asked_, options, &stop);
    if (!made.ok() || stop.is_cancelled()) return;
    if ((reasons & kDrift) == 0 && !is_faster(*made, *now, options)) return;
    const std::uint64_t version = made->costs_version;
    Result<std::shared_ptr<const Executable>> executable = Executable::create(std::move(*made));
    if (!executable.ok()) return;
    const std::int64_t limit = limit_now(options_, *budget_, limited_by_);
    const std::lock_guard lock(mutex_);
    if ((*executable)->plan().peak_bytes > limit) continue;
    (improves ? improvements_ : replans_).fetch_add(1, std::memory_order_relaxed);
    version_ = version;
    install(std::move(*executable));
    const planner::Plan& plan = executable_->plan();
    if (!improves && may_be_tried(plan) && !is_same(plan, now->plan()) &&
        now->plan().peak_bytes <= limit) {
      begin_trial(now);
    }
    return;
  }
}

// Transfers and codecs take processors and memory from the kernels beside them, which their prices
// know only by what was measured while they were alone, and one plan's kernels while they were not.
void CurrentExecutable::challenge_with_fewer_remedies(const Cancellation& stop) {
  const std::shared_ptr<const Executable> now = incumbent();
  const planner::MeasuredCosts& costs = now->program().costs();
  while (!stop.is_cancelled()) {
    planner::PlanOptions options = options_now();
    {
      const std::lock_guard lock(mutex_);
      if (executable_ != now || trial_ != nullptr) return;
      const auto sets = fewer_remedies(now->plan(), remedies_);
      if (fewer_tried_ >= sets.size()) return;
      options.remedies = sets[fewer_tried_++];
    }
    costs.apply_links(options);
    Result<ProgramPlan> made = plan_within(asked_, options, &stop);
    if (!made.ok() && made.status().code() != StatusCode::resource_exhausted) return;
    if (!made.ok() || stop.is_cancelled()) continue;
    const bool is_hopeless =
        costs.runs() > 0 && made->program->costs().seconds_of(*made->plan, options) >
                                kHopeless * costs.seconds_of(now->plan(), options);
    if (is_hopeless) continue;
    Result<std::shared_ptr<const Executable>> executable = Executable::create(std::move(*made));
    if (!executable.ok()) return;
    const std::int64_t limit = limit_now(options_, *budget_, limited_by_);
    const std::lock_guard lock(mutex_);
    if (executable_ != now || trial_ != nullptr) return;
    const bool both_fit =
        (*executable)->plan().peak_bytes <= limit && now->plan().peak_bytes <= limit;
    if (both_fit) begin_trial(std::move(*executable));
    return;
  }
}

// By the same costs: measured ones, where the old plan has run.
bool CurrentExecutable::is_faster(const ProgramPlan& made, const Executable& now,
                                  const planner::PlanOptions& options) const {
  const planner::MeasuredCosts& costs = now.program().costs();
  if (costs.runs() > 0) {
    return made.program->costs().seconds_of(*made.plan, options) <
           costs.seconds_of(now.plan(), options);
  }
  return made.plan->predicted_seconds < now.plan().predicted_seconds;
}

}  // namespace plimsoll::executor
