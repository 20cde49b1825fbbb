// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/current_executable.h"

#include <utility>

#include "runtime/program/complete_options.h"

namespace plimsoll::executor {

namespace {

planner::PlanOptions complete(const planner::PlanOptions& options, const Program& program,
                              const memory::Budget& budget, LimitedBy limited_by) {
  return limited_by == LimitedBy::options ? complete_places(options, program, budget)
                                          : complete_options(options, program, budget);
}

}  // namespace

Result<std::shared_ptr<CurrentExecutable>> CurrentExecutable::create(
    std::shared_ptr<const Program> program, const planner::PlanOptions& options,
    std::shared_ptr<memory::Budget> budget, double drift, LimitedBy limited_by) {
  const planner::PlanOptions complete = executor::complete(options, *program, *budget, limited_by);
  program->costs().assume_tiers(complete);
  PLIMSOLL_ASSIGN_OR_RETURN(ProgramPlan fitting, plan_within(std::move(program), complete));
  fitting.program->costs().assume_tiers(complete);
  auto made = std::make_shared<CurrentExecutable>(std::move(fitting.program), options,
                                                  std::move(budget), drift, limited_by);
  made->version_ = made->program_->costs().version();
  PLIMSOLL_ASSIGN_OR_RETURN(made->executable_, Executable::create(made->program_, complete));
  made->executable_->enable_sampling(drift > 0);
  return made;
}

planner::PlanOptions CurrentExecutable::complete_options() const {
  return executor::complete(options_, *program_, *budget_, limited_by_);
}

std::shared_ptr<const Executable> CurrentExecutable::get() const {
  const std::lock_guard lock(mutex_);
  return executable_;
}

CurrentExecutable::Expectation CurrentExecutable::expectation() const {
  const std::lock_guard lock(expecting_);
  const std::shared_ptr<const Executable> now = get();
  const planner::MeasuredCosts& costs = program_->costs();
  const std::int64_t runs = costs.runs();
  if (expected_ == now && expected_runs_ == runs) return expectation_;
  const planner::Plan& plan = now->plan();
  expectation_ = {plan.predicted_seconds, plan.unlimited_seconds};
  if (runs > 0) {
    planner::PlanOptions options = complete_options();
    if (expected_ != now) {
      planner::PlanOptions unlimited = options;
      unlimited.limit_bytes = planner::kUnlimited;
      costs.apply_links(unlimited);
      const auto made = program_->plan(unlimited);
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
  planner::MeasuredCosts& costs = program_->costs();
  costs.update(drift_);
  if (costs.version() == version_.load(std::memory_order_relaxed)) return now;
  const std::unique_lock planning(planning_, std::try_to_lock);
  if (!planning.owns_lock()) return now;
  version_.store(costs.version(), std::memory_order_relaxed);
  const planner::Plan& plan = now->plan();
  // Transfers and codecs that were thought to cost nothing may cost something.
  const bool keeps_all = plan.counts.all_encodes() + plan.counts.swap_out == 0;
  if (keeps_all && plan.predicted_seconds <= plan.unlimited_seconds) return now;
  planner::PlanOptions options = complete_options();
  costs.apply_links(options);
  auto made = Executable::create(program_, options);
  if (!made.ok()) return now;
  (*made)->enable_sampling(true);
  replans_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  executable_ = std::move(*made);
  return executable_;
}

}  // namespace plimsoll::executor
