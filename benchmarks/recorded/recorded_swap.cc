// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "benchmarks/recorded/recorded_swap_bound.h"
#include "runtime/planner/remedies/swap_search.h"

namespace plimsoll::planner {
namespace {

// The actions of docs/memory_planning.md; values that are no storages, and the last op, which only
// reads what is held, have none.
std::string text_of(const RecordedStep& step, const std::vector<SwapAction>& actions) {
  std::string text;
  bool done = false;
  const auto line = [&](char kind, std::int32_t target) {
    text += kind;
    text += ' ' + std::to_string(target) + '\n';
  };
  for (const SwapAction& action : actions) {
    if (action.kind == SwapAction::Kind::run) {
      done = !step.is_recorded(action.op);
      if (!done) line('c', action.op.value());
      continue;
    }
    if (!step.is_storage(action.value)) continue;
    switch (action.kind) {
      case SwapAction::Kind::copy_out:
        line('o', action.value.value());
        break;
      case SwapAction::Kind::copy_in:
        line('i', action.value.value());
        break;
      case SwapAction::Kind::wait:
        line('w', action.value.value());
        break;
      default:
        // What is held at the end stays.
        if (!done) line('f', action.value.value());
        break;
    }
  }
  return text;
}

// A copy keeps the link for latency and bytes in whole nanoseconds, parts rounded up.
double link_seconds(std::int64_t bytes, double bytes_per_second, const Tier& tier) {
  return 1e-9 * (std::round(tier.latency_seconds * 1e9) +
                 std::ceil(static_cast<double>(bytes) * 1e9 / std::max(1.0, bytes_per_second)));
}

// Any storage may be copied that is not there from the start.
std::vector<Form> list_forms(const RecordedStep& step, const Tier& tier) {
  std::vector<Form> forms;
  for (const ValueId v : step.problem.values.ids()) {
    const std::int64_t bytes = step.problem.values[v].bytes;
    if (!step.problem.in_arena(v) || bytes == 0) continue;
    Form form;
    form.value = v;
    form.kind = swap_to(MemorySpace::host);
    form.bytes = bytes;
    form.out.engine_seconds = link_seconds(bytes, tier.out_bytes_per_second, tier);
    form.in.engine_seconds = link_seconds(bytes, tier.in_bytes_per_second, tier);
    forms.push_back(form);
  }
  return forms;
}

// One question to the planner of swaps.
std::optional<CoveredSchedule> find_copies_within(const RecordedStep& step,
                                                  std::int64_t limit_bytes, SearchEffort effort,
                                                  const Tier& tier, const Schedule& recomputed) {
  PerTier<Tier> tiers;
  tiers.host = tier;
  const std::vector<Form> forms = list_forms(step, tier);
  const SwapModel model(step.problem, forms, tiers, limit_bytes - step.problem.parameter_bytes);
  const auto recompute = [&](const Problem& problem, std::int64_t limit,
                             std::span<const Schedule> starts, double share) {
    SearchEffort some = effort;
    if (share == 0) some.level = SearchEffort::Level::quick;
    some.scale *= share;
    return search_schedule(problem, limit, 0, some, starts);
  };
  std::vector<Schedule> starts;
  if (!recomputed.empty()) starts.push_back(recomputed);
  const bool is_quick = effort.level == SearchEffort::Level::quick;
  return search_swaps(model, is_quick ? SwapEffort::quick : SwapEffort::thorough, recompute,
                      starts);
}

// The fastest found whose copies fit into the tier. Which plans there are does not depend on how
// much that is: the one that may take any number of bytes comes first, then ones that may take ever
// less, each slower than the one before; the first that fits is taken. So more bytes never give a
// slower plan.
std::optional<CoveredSchedule> find_copies(const RecordedStep& step, std::int64_t limit_bytes,
                                           const SearchEffort& effort, const Tier& tier,
                                           const Schedule& recomputed) {
  if (tier.bytes <= 0) return std::nullopt;
  constexpr int kLevels = 12;
  constexpr double kLevel = 0.75;
  Tier part = tier;
  part.bytes = kUnlimited;
  auto found = find_copies_within(step, limit_bytes, effort, part, recomputed);
  if (!found || found->tier_peak.host <= tier.bytes) return found;
  SearchEffort quick = effort;
  quick.level = SearchEffort::Level::quick;
  auto bytes = static_cast<double>(found->tier_peak.host);
  double least = found->nanoseconds;
  for (int level = 0; level < kLevels; ++level) {
    bytes *= kLevel;
    part.bytes = static_cast<std::int64_t>(bytes);
    found = find_copies_within(step, limit_bytes, quick, part, recomputed);
    if (!found || found->nanoseconds < least) continue;
    least = found->nanoseconds;
    if (found->tier_peak.host <= tier.bytes) return found;
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
    plan.peak_bytes = found->peak_bytes + step.problem.parameter_bytes;
    plan.unlimited_seconds = base_seconds;
    plan.predicted_seconds = found->nanoseconds * 1e-9;
    if (step.total_nanoseconds > 0) {
      plan.overhead = 100.0 * (found->nanoseconds - static_cast<double>(step.total_nanoseconds)) /
                      static_cast<double>(step.total_nanoseconds);
    }
    result.stalled_seconds = found->stalled * 1e-9;
    result.swapped_bytes = found->swapped_bytes;
    result.actions = text_of(step, found->actions);
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
