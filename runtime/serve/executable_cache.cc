// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/executable_cache.h"

#include <algorithm>
#include <utility>

namespace plimsoll::executor {
namespace {

bool same(std::span<const planner::ParameterResidency> a,
          std::span<const planner::ParameterResidency> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool fits(const planner::Plan& plan, const planner::PlanOptions& options) {
  return plan.peak_bytes <= options.limit_bytes &&
         std::all_of(kTiers.begin(), kTiers.end(), [&](MemorySpace tier) {
           return options[tier].bytes == 0 || plan.tier_bytes[tier] <= options[tier].bytes;
         });
}

}  // namespace

std::shared_ptr<CurrentExecutable> ExecutableCache::find(
    std::int64_t limit_bytes,
    std::span<const planner::ParameterResidency> parameters) const noexcept {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.question.limit_bytes == limit_bytes && same(entry.question.parameters, parameters)) {
      return entry.current;
    }
  }
  return nullptr;
}

Result<std::shared_ptr<CurrentExecutable>> ExecutableCache::plan(
    const planner::PlanOptions& options) {
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto made, CurrentExecutable::create(program_, options, budget_, drift_, limited_by_));
  // Its end waits until nothing is planned for it any more.
  std::shared_ptr<CurrentExecutable> dropped;
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= most_) {
    dropped = std::move(entries_.front().current);
    entries_.erase(entries_.begin());
  }
  entries_.push_back({options, made});
  return made;
}

std::shared_ptr<CurrentExecutable> ExecutableCache::fastest(
    const planner::PlanOptions& options) const {
  const std::lock_guard lock(mutex_);
  const Entry* best = nullptr;
  double least_seconds = 0;
  for (const Entry& entry : entries_) {
    if (!same(entry.question.parameters, options.parameters)) continue;
    const auto executable = entry.current->get();
    const planner::Plan& plan = executable->plan();
    if (!fits(plan, options)) continue;
    // More memory than it was planned for helps only a plan that pays for memory, and a tenth more
    // is not worth planning again.
    const bool free_of_charge = plan.predicted_seconds <= plan.unlimited_seconds;
    const std::int64_t planned_for = entry.question.limit_bytes;
    if (!free_of_charge && options.limit_bytes - planned_for > planned_for / 10) continue;
    if (best != nullptr && plan.predicted_seconds >= least_seconds) continue;
    best = &entry;
    least_seconds = plan.predicted_seconds;
  }
  return best == nullptr ? nullptr : best->current;
}

// What there is room for differs from run to run, and planning takes seconds. A plan made for
// another limit is used if it fits into what there is now, and if planning again would hardly help:
// it pays nothing for memory anyway, or was made for a limit not much smaller. So plans are made
// for limits about a tenth apart, at most `most` of them, and what a program sees in a steady
// state is a look-up.
Result<ExecutableCache::Answer> ExecutableCache::find_or_plan(const planner::PlanOptions& options) {
  if (const auto current = fastest(options)) {
    auto executable = current->next();
    // Planned again for what it was first given, which may be more than there is now.
    if (fits(executable->plan(), options)) {
      return Answer{std::move(executable), current, false, current->replans()};
    }
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const auto current, plan(options));
  return Answer{current->get(), current, true, 0};
}

}  // namespace plimsoll::executor
