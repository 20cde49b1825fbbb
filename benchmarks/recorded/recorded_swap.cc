// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap.h"

#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "benchmarks/recorded/recorded_swap_bound.h"
#include "benchmarks/recorded/recorded_swap_cover.h"
#include "benchmarks/recorded/recorded_swap_search.h"

namespace plimsoll::planner {
namespace {

std::string text_of(const std::vector<CopyAction>& actions) {
  std::string text;
  for (const CopyAction& action : actions) {
    text += static_cast<char>(action.kind);
    text += ' ' + std::to_string(action.target) + '\n';
  }
  return text;
}

// The fastest found whose copies fit into the tier. Which plans there are does not depend on how
// much that is: the one that may take any number of bytes comes first, then ones that may take ever
// less, each slower than the one before; the first that fits is taken. So more bytes never give a
// slower plan.
std::optional<CoveredSchedule> find_copies(const RecordedStep& step, std::int64_t limit_bytes,
                                           const SearchEffort& effort, const Tier& tier,
                                           std::span<const OpId> recomputed) {
  if (tier.bytes <= 0) return std::nullopt;
  constexpr int kLevels = 12;
  constexpr double kLevel = 0.75;
  Tier part = tier;
  part.bytes = kUnlimited;
  auto found = search_copies(step, limit_bytes, part, effort, recomputed);
  if (!found || found->tier_peak_bytes <= tier.bytes) return found;
  SearchEffort quick = effort;
  quick.level = SearchEffort::Level::quick;
  auto bytes = static_cast<double>(found->tier_peak_bytes);
  std::int64_t least = found->nanoseconds;
  for (int level = 0; level < kLevels; ++level) {
    bytes *= kLevel;
    part.bytes = static_cast<std::int64_t>(bytes);
    found = search_copies(step, limit_bytes, part, quick, recomputed);
    if (!found || found->nanoseconds < least) continue;
    least = found->nanoseconds;
    if (found->tier_peak_bytes <= tier.bytes) return found;
  }
  return std::nullopt;
}

}  // namespace

Result<RecordedSwapPlan> plan_recorded_swaps(const RecordedStep& step, std::int64_t limit_bytes,
                                             const SearchEffort& effort, const Tier& tier) {
  const auto start = std::chrono::steady_clock::now();
  auto recomputed = plan_recorded_step(step, limit_bytes, effort);
  if (!recomputed.ok() && recomputed.status().code() != StatusCode::resource_exhausted) {
    return recomputed.status();
  }
  const double base_seconds = static_cast<double>(step.total_nanoseconds) * 1e-9;
  RecordedSwapPlan result;
  Schedule begin;
  if (recomputed.ok()) {
    result.plan = std::move(*recomputed);
    begin = std::move(result.plan.schedule);
    result.plan.schedule.clear();
    result.actions = schedule_text(step, begin);
  }
  const auto found = find_copies(step, limit_bytes, effort, tier, begin);
  if (!found && begin.empty()) return recomputed.status();
  if (found && found->swapped_bytes > 0) {
    RecordedPlan& plan = result.plan;
    if (begin.empty()) {
      Schedule once = each_once(step.problem);
      plan.unlimited_peak_bytes = recorded_cost(step, once).peak_bytes;
    }
    plan.limit_bytes = limit_bytes;
    plan.peak_bytes = found->peak_bytes;
    plan.unlimited_seconds = base_seconds;
    plan.predicted_seconds = static_cast<double>(found->nanoseconds) * 1e-9;
    if (step.total_nanoseconds > 0) {
      plan.overhead = 100.0 * static_cast<double>(found->nanoseconds - step.total_nanoseconds) /
                      static_cast<double>(step.total_nanoseconds);
    }
    result.stalled_seconds = static_cast<double>(found->stalled_nanoseconds) * 1e-9;
    result.swapped_bytes = found->swapped_bytes;
    result.actions = text_of(found->actions);
  }
  result.plan.lower_bound_seconds = base_seconds;
  if (effort.level != SearchEffort::Level::quick && !effort.reorder) {
    result.plan.lower_bound_seconds =
        swap_bound_seconds(step.problem, limit_bytes - step.problem.parameter_bytes, tier,
                           result.plan.predicted_seconds);
  }
  result.plan.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace plimsoll::planner
