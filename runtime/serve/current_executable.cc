// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/current_executable.h"

#include <algorithm>
#include <utility>

namespace plimsoll::executor {
namespace {

std::int64_t limit_now(const planner::Question& question, const memory::Budget& budget,
                       LimitedBy limited_by) {
  return limited_by == LimitedBy::question ? question.limit_bytes
                                           : std::min(question.limit_bytes, budget.limit());
}

planner::PlanOptions at_limit(const planner::PlanOptions& options, std::int64_t limit_bytes) {
  return {options, options, {limit_bytes, options.parameters}};
}

}  // namespace

Result<std::shared_ptr<CurrentExecutable>> CurrentExecutable::create(
    std::shared_ptr<const Program> program, const planner::PlanOptions& options,
    std::shared_ptr<memory::Budget> budget, double drift, LimitedBy limited_by) {
  PLIMSOLL_ASSIGN_OR_RETURN(
      ProgramPlan first,
      plan_within(std::move(program), at_limit(options, limit_now(options, *budget, limited_by))));
  return create(std::move(first), options, std::move(budget), drift, limited_by);
}

Result<std::shared_ptr<CurrentExecutable>> CurrentExecutable::create(
    ProgramPlan first, const planner::PlanOptions& options, std::shared_ptr<memory::Budget> budget,
    double drift, LimitedBy limited_by) {
  first.program->costs().assume_tiers(options);
  auto made = std::make_shared<CurrentExecutable>(first.program, options, std::move(budget), drift,
                                                  limited_by);
  made->version_ = first.costs_version;
  PLIMSOLL_ASSIGN_OR_RETURN(made->executable_, Executable::create(std::move(first)));
  made->executable_->enable_sampling(drift > 0);
  return made;
}

planner::PlanOptions CurrentExecutable::options_now() const {
  return at_limit(options_, limit_now(options_, *budget_, limited_by_));
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
    const planner::PlanOptions options = options_now();
    if (expected_ != now) {
      planner::PlanOptions unlimited = at_limit(options, planner::kUnlimited);
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
  planner::PlanOptions options = options_now();
  costs.apply_links(options);
  auto again = plan_within(program_, options);
  if (!again.ok()) return now;
  auto made = Executable::create(std::move(*again));
  if (!made.ok()) return now;
  (*made)->enable_sampling(true);
  replans_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  executable_ = std::move(*made);
  return executable_;
}

}  // namespace plimsoll::executor
