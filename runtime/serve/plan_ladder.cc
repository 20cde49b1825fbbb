// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/plan_ladder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/program/complete_options.h"

namespace plimsoll::executor {
namespace {

// Each step's limit is at most this share of the one above it, but for the last ones of programs
// whose floor is so far down that kMostSteps are not enough.
constexpr double kStep = 5.0 / 6;
constexpr int kMostSteps = 16;

bool pays(const planner::Plan& plan) { return plan.predicted_seconds > plan.unlimited_seconds; }

std::int64_t add(std::int64_t free, std::int64_t bound) {
  return free > planner::kUnlimited - bound ? planner::kUnlimited : free + bound;
}

}  // namespace

Result<std::shared_ptr<PlanLadder>> PlanLadder::create(std::shared_ptr<const Program> program,
                                                       const planner::PlanOptions& options,
                                                       std::shared_ptr<memory::Budget> budget,
                                                       double drift) {
  planner::PlanOptions limited = options;
  limited.limit_bytes = std::min(options.limit_bytes, budget->limit());
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto first, CurrentExecutable::create(program, limited, budget, drift, LimitedBy::options));
  return std::make_shared<PlanLadder>(std::move(program), options, std::move(budget), drift,
                                      std::move(first), limited.limit_bytes);
}

PlanLadder::PlanLadder(std::shared_ptr<const Program> program, const planner::PlanOptions& options,
                       std::shared_ptr<memory::Budget> budget, double drift,
                       std::shared_ptr<CurrentExecutable> first, std::int64_t first_limit)
    : program_(std::move(program)),
      options_(options),
      budget_(std::move(budget)),
      drift_(drift),
      first_(std::move(first)),
      has_top_(first_limit >= options_.limit_bytes || !pays(first_->get()->plan())) {
  steps_.push_back({first_limit, first_, false});
}

// One run that asks for room.
class PlanLadder::Run final : public memory::Applicant {
 public:
  Run(PlanLadder& ladder, std::int64_t bound_bytes) : ladder_(ladder), bound_(bound_bytes) {}

  memory::Offer offer(const memory::Room& free) noexcept override {
    Answer answer = ladder_.find(with_bound(free));
    if (answer.missing != Missing::nothing) return {memory::Offer::Kind::prepare, {}};
    if (answer.executable == nullptr) {
      return {memory::Offer::Kind::none, {std::max<std::int64_t>(0, answer.least_bytes - bound_)}};
    }
    chosen_ = std::move(answer.executable);
    const planner::Plan& plan = chosen_->plan();
    memory::Room need;
    need.device = std::max<std::int64_t>(0, plan.peak_bytes - bound_);
    for (const MemorySpace tier : kTiers) need[tier] = plan.tier_bytes[tier];
    return {memory::Offer::Kind::fits, need};
  }

  Status prepare(const memory::Room& free) override {
    const std::lock_guard planning(ladder_.planning_);
    for (;;) {
      const Answer answer = ladder_.find(with_bound(free));
      if (answer.missing == Missing::nothing) return ok_status();
      PLIMSOLL_RETURN_IF_ERROR(ladder_.make(answer));
    }
  }

  std::shared_ptr<const Executable> take() { return std::move(chosen_); }

 private:
  memory::Room with_bound(const memory::Room& free) const {
    memory::Room room = free;
    room.device = add(free.device, bound_);
    return room;
  }
  PlanLadder& ladder_;
  const std::int64_t bound_;
  std::shared_ptr<const Executable> chosen_;
};

PlanLadder::Answer PlanLadder::find(const memory::Room& free) const noexcept {
  Answer answer;
  const std::int64_t limit = std::min(free.device, options_.limit_bytes);
  const std::lock_guard lock(mutex_);
  answer.least_bytes = planner::kUnlimited;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.dead) continue;
    if (step.current == nullptr) {
      answer.least_bytes = std::min(answer.least_bytes, step.limit);
      if (step.limit > limit) continue;
      answer.missing = Missing::step;
      answer.step = i;
      return answer;
    }
    std::shared_ptr<const Executable> executable = step.current->get();
    const planner::Plan& plan = executable->plan();
    answer.least_bytes = std::min(answer.least_bytes, plan.peak_bytes);
    const bool tiers_hold = std::all_of(kTiers.begin(), kTiers.end(), [&](MemorySpace tier) {
      return plan.tier_bytes[tier] <= free[tier];
    });
    if (plan.peak_bytes > limit || !tiers_hold) continue;
    if (i == 0 && !has_top_ && limit > step.limit) {
      answer.missing = Missing::top;
      return answer;
    }
    answer.executable = std::move(executable);
    return answer;
  }
  if (!has_lower_) answer.missing = Missing::lower;
  return answer;
}

Status PlanLadder::make(const Answer& missing) {
  switch (missing.missing) {
    case Missing::nothing:
      return ok_status();
    case Missing::top:
      return make_top();
    case Missing::lower:
      return make_lower();
    case Missing::step:
      break;
  }
  // Only the one that plans changes steps_.
  Step& step = steps_[missing.step];
  auto made = plan(step.limit);
  const std::lock_guard lock(mutex_);
  if (made.ok()) {
    step.current = std::move(*made);
  } else if (made.status().code() == StatusCode::resource_exhausted) {
    step.dead = true;
  } else {
    return made.status();
  }
  return ok_status();
}

Result<std::shared_ptr<CurrentExecutable>> PlanLadder::plan(std::int64_t limit) const {
  planner::PlanOptions options = options_;
  options.limit_bytes = limit;
  return CurrentExecutable::create(program_, options, budget_, drift_, LimitedBy::options);
}

Status PlanLadder::make_top() {
  PLIMSOLL_ASSIGN_OR_RETURN(auto made, plan(options_.limit_bytes));
  const std::int64_t peak = made->get()->plan().peak_bytes;
  const std::lock_guard lock(mutex_);
  const std::int64_t below = steps_.front().limit;
  insert({std::max(peak, below), std::move(made), false});
  add_steps(peak, below);
  has_top_ = true;
  return ok_status();
}

Status PlanLadder::make_lower() {
  planner::PlanOptions options = complete_places(options_, *program_, *budget_);
  options.limit_bytes = planner::kUnlimited;
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor floor, least_floor(*program_, options));
  const std::lock_guard lock(mutex_);
  const std::int64_t above = steps_.back().current->get()->plan().peak_bytes;
  if (floor.bytes < above) {
    add_steps(above, floor.bytes);
    insert({floor.bytes, nullptr, false});
  }
  has_lower_ = true;
  return ok_status();
}

// Geometric ones between two.
void PlanLadder::add_steps(std::int64_t above, std::int64_t below) {
  if (below >= above || below <= 0) return;
  const double ratio = static_cast<double>(below) / static_cast<double>(above);
  const int count =
      std::min(kMostSteps, static_cast<int>(std::ceil(std::log(ratio) / std::log(kStep))));
  for (int i = 1; i < count; ++i) {
    const double share = std::pow(ratio, static_cast<double>(i) / count);
    insert({static_cast<std::int64_t>(static_cast<double>(above) * share), nullptr, false});
  }
}

void PlanLadder::insert(Step step) {
  const auto at = std::find_if(steps_.begin(), steps_.end(),
                               [&](const Step& other) { return other.limit <= step.limit; });
  steps_.insert(at, std::move(step));
}

// Measured times may ask for other plans; where the last run came from is where the next one will
// most likely come from.
void PlanLadder::replan_last() {
  std::shared_ptr<CurrentExecutable> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_.lock();
  }
  if (last != nullptr) last->next();
}

Result<PlanLadder::Entry> PlanLadder::admit(std::int64_t bound_bytes, const Stop& stop,
                                            bool may_wait) {
  replan_last();
  Run run(*this, bound_bytes);
  Entry entry;
  PLIMSOLL_ASSIGN_OR_RETURN(
      entry.admitted, budget_->admission().admit(
                          run, "running " + program_->module().entry()->name(), stop, may_wait));
  entry.executable = run.take();
  const std::lock_guard lock(mutex_);
  for (const Step& step : steps_) {
    if (step.current != nullptr && step.current->get() == entry.executable) last_ = step.current;
  }
  return entry;
}

std::vector<PlanLadder::Rung> PlanLadder::rungs() const {
  std::vector<Rung> rungs;
  const std::lock_guard lock(mutex_);
  for (const Step& step : steps_) {
    if (step.dead) continue;
    rungs.push_back({step.limit, step.current == nullptr ? nullptr : step.current->get()});
  }
  return rungs;
}

}  // namespace plimsoll::executor
