// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/shared_plans.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/program/machine.h"

namespace plimsoll::executor {
namespace {

// Each slot's limit is at most this share of the one above it, but for the last ones of programs
// whose floor is so far down that kMostSlots are not enough.
constexpr double kRatio = 5.0 / 6;
constexpr int kMostSlots = 16;

bool pays(const planner::Plan& plan) { return plan.predicted_seconds > plan.unlimited_seconds; }

std::int64_t add(std::int64_t free, std::int64_t bound) {
  return free > planner::kUnlimited - bound ? planner::kUnlimited : free + bound;
}

}  // namespace

Result<std::shared_ptr<SharedPlans>> SharedPlans::create(std::shared_ptr<const Program> program,
                                                         const planner::PlanPolicy& policy,
                                                         const planner::Question& question,
                                                         std::shared_ptr<memory::Budget> budget,
                                                         double drift) {
  const planner::PlanOptions options{policy, machine_of(budget->tiers()), question};
  const std::int64_t limit = std::min(options.limit_bytes, budget->limit());
  const memory::Budget& shared = *budget;
  auto made = std::make_shared<SharedPlans>(std::move(program), options, std::move(budget), drift);
  const Status status = made->make_first(limit);
  if (!status.ok()) return beside_code(status, shared.device());
  return made;
}

SharedPlans::SharedPlans(std::shared_ptr<const Program> program,
                         const planner::PlanOptions& options,
                         std::shared_ptr<memory::Budget> budget, double drift)
    : options_(options),
      budget_(budget),
      executables_(std::move(program), std::move(budget), drift, LimitedBy::question) {}

Status SharedPlans::make_first(std::int64_t limit) {
  PLIMSOLL_ASSIGN_OR_RETURN(first_, plan(limit));
  slots_.push_back({limit, limit, false});
  has_top_ = limit >= options_.limit_bytes || !pays(first_->get()->plan());
  return ok_status();
}

// One run that asks for room.
class SharedPlans::Run final : public memory::Applicant {
 public:
  Run(SharedPlans& plans, std::int64_t bound_bytes) : plans_(plans), bound_(bound_bytes) {}

  memory::Offer offer(const memory::BytesPerSpace& free) noexcept override {
    Answer answer = plans_.find(with_bound(free));
    if (answer.missing != Missing::nothing) return {memory::Offer::Kind::prepare, {}};
    if (answer.executable == nullptr) {
      return {memory::Offer::Kind::none, {std::max<std::int64_t>(0, answer.least_bytes - bound_)}};
    }
    chosen_ = std::move(answer.executable);
    const planner::Plan& plan = chosen_->plan();
    memory::BytesPerSpace need{.device = std::max<std::int64_t>(0, plan.peak_bytes - bound_)};
    for (const MemorySpace tier : kTiers) need[tier] = plan.tier_bytes[tier];
    return {memory::Offer::Kind::fits, need};
  }

  Status prepare(const memory::BytesPerSpace& free) override {
    const std::lock_guard planning(plans_.planning_);
    for (;;) {
      const Answer answer = plans_.find(with_bound(free));
      if (answer.missing == Missing::nothing) return ok_status();
      PLIMSOLL_RETURN_IF_ERROR(plans_.make(answer));
    }
  }

  std::shared_ptr<const Executable> take() { return std::move(chosen_); }

 private:
  memory::BytesPerSpace with_bound(const memory::BytesPerSpace& free) const {
    memory::BytesPerSpace available = free;
    available.device = add(free.device, bound_);
    return available;
  }
  SharedPlans& plans_;
  const std::int64_t bound_;
  std::shared_ptr<const Executable> chosen_;
};

// Example: levels at 100, 83, 69 MB and so on down to the floor of 40; 75 MB are free. The first
// level whose plan's peak is at most 75 is the answer. If that level was not planned yet, planning
// it comes first: outside of all locks, since it takes time, and asked for by `missing`. A run that
// nobody needs to wait for never makes more plans than it looks at.
SharedPlans::Answer SharedPlans::find(const memory::BytesPerSpace& free) const noexcept {
  Answer answer;
  const std::int64_t limit = std::min(free.device, options_.limit_bytes);
  const std::lock_guard lock(mutex_);
  answer.least_bytes = planner::kUnlimited;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.dead) continue;
    const std::shared_ptr<CurrentExecutable> current = executable_of(slot);
    if (current == nullptr) {
      answer.least_bytes = std::min(answer.least_bytes, slot.limit);
      if (slot.limit > limit) continue;
      answer.missing = Missing::slot;
      answer.slot = i;
      return answer;
    }
    std::shared_ptr<const Executable> executable = current->get();
    const planner::Plan& plan = executable->plan();
    answer.least_bytes = std::min(answer.least_bytes, plan.peak_bytes);
    const bool tiers_hold = std::all_of(kTiers.begin(), kTiers.end(), [&](MemorySpace tier) {
      return plan.tier_bytes[tier] <= free[tier];
    });
    if (plan.peak_bytes > limit || !tiers_hold) continue;
    if (i == 0 && !has_top_ && limit > slot.limit) {
      answer.missing = Missing::top;
      return answer;
    }
    answer.executable = std::move(executable);
    return answer;
  }
  if (!has_lower_) answer.missing = Missing::lower;
  return answer;
}

Status SharedPlans::make(const Answer& missing) {
  switch (missing.missing) {
    case Missing::nothing:
      return ok_status();
    case Missing::top:
      return make_top();
    case Missing::lower:
      return make_lower();
    case Missing::slot:
      break;
  }
  // Only the one that plans changes slots_.
  Slot& slot = slots_[missing.slot];
  const Status made = plan(slot.planned_for).status();
  if (made.code() != StatusCode::resource_exhausted) return made;
  const std::lock_guard lock(mutex_);
  slot.dead = true;
  return ok_status();
}

Result<std::shared_ptr<CurrentExecutable>> SharedPlans::plan(std::int64_t limit) {
  planner::PlanOptions options = options_;
  options.limit_bytes = limit;
  return executables_.plan(options);
}

Status SharedPlans::make_top() {
  const std::int64_t limit = options_.limit_bytes;
  PLIMSOLL_ASSIGN_OR_RETURN(const auto made, plan(limit));
  const std::int64_t peak = made->get()->plan().peak_bytes;
  const std::lock_guard lock(mutex_);
  const std::int64_t below = slots_.front().limit;
  insert({std::max(peak, below), limit, false});
  add_slots(peak, below);
  has_top_ = true;
  return ok_status();
}

Status SharedPlans::make_lower() {
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor floor,
                            least_floor(*executables_.program(), options_));
  const std::lock_guard lock(mutex_);
  const std::int64_t above = executable_of(slots_.back())->get()->plan().peak_bytes;
  if (floor.bytes < above) {
    add_slots(above, floor.bytes);
    insert({floor.bytes, floor.bytes, false});
  }
  has_lower_ = true;
  return ok_status();
}

// Geometric ones between two.
void SharedPlans::add_slots(std::int64_t above, std::int64_t below) {
  if (below >= above || below <= 0) return;
  const double ratio = static_cast<double>(below) / static_cast<double>(above);
  const int count =
      std::min(kMostSlots, static_cast<int>(std::ceil(std::log(ratio) / std::log(kRatio))));
  for (int i = 1; i < count; ++i) {
    const double share = std::pow(ratio, static_cast<double>(i) / count);
    const auto limit = static_cast<std::int64_t>(static_cast<double>(above) * share);
    insert({limit, limit, false});
  }
}

void SharedPlans::insert(Slot slot) {
  const auto at = std::find_if(slots_.begin(), slots_.end(),
                               [&](const Slot& other) { return other.limit <= slot.limit; });
  slots_.insert(at, slot);
}

// Measured times may ask for other plans; where the last run came from is where the next one will
// most likely come from.
void SharedPlans::replan_last() {
  std::shared_ptr<CurrentExecutable> last;
  {
    const std::lock_guard lock(mutex_);
    last = last_.lock();
  }
  if (last != nullptr) last->next();
}

Result<SharedPlans::Entry> SharedPlans::admit(std::int64_t bound_bytes, const Stop& stop,
                                              bool may_wait) {
  replan_last();
  Run run(*this, bound_bytes);
  Entry entry;
  PLIMSOLL_ASSIGN_OR_RETURN(
      entry.admitted,
      budget_->admission().admit(run, "running " + executables_.program()->module().name(), stop,
                                 may_wait));
  entry.executable = run.take();
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    const auto current = executable_of(slot);
    if (current != nullptr && current->get() == entry.executable) last_ = current;
  }
  return entry;
}

std::vector<SharedPlans::Level> SharedPlans::levels() const {
  std::vector<Level> levels;
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.dead) continue;
    const auto current = executable_of(slot);
    levels.push_back({slot.limit, current == nullptr ? nullptr : current->get()});
  }
  return levels;
}

}  // namespace plimsoll::executor
