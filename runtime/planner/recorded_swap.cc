// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/recorded_swap.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/planner/remedies_plan.h"
#include "runtime/planner/timeline.h"

namespace plimsoll::planner {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

std::string actions_of(const RecordedStep& step, const RemedyPlan& found,
                       std::span<const ValueId> origin) {
  const Problem& problem = *found.problem;
  // Recorded ops keep their order among the others.
  std::vector<OpId> recorded(problem.ops.size(), -1);
  OpId next = 0;
  for (OpId op = 0; op < problem.op_count(); ++op) {
    const Op& what = problem.ops[at(op)];
    if (what.engine < 0 && what.transfer < 0) recorded[at(op)] = next++;
  }
  const Liveness liveness = find_liveness(problem, found.schedule);
  std::string text;
  const auto line = [&](char action, std::int32_t number) {
    text += action;
    text += ' ' + std::to_string(number) + '\n';
  };
  // What was started to come in is not given up, but becomes the copy.
  const auto give_up = [&](ValueId v) {
    if (origin[at(v)] >= step.storage_count || !problem.in_arena(v)) return;
    const OpId producer = problem.values[at(v)].producer;
    if (producer >= 0 && problem.ops[at(producer)].kind == StepKind::swap_in) return;
    line('f', origin[at(v)]);
  };
  for (std::size_t t = 0; t < found.schedule.size(); ++t) {
    const OpId op = found.schedule[t];
    const Op& what = problem.ops[at(op)];
    if (what.kind == StepKind::swap_out) {
      line('o', origin[at(problem.reads[op].front())]);
    } else if (what.kind == StepKind::swap_in) {
      line('i', origin[at(problem.reads[op].front())]);
    } else if (what.kind == StepKind::swap_wait) {
      line('w', origin[at(problem.reads[op].front())]);
    } else if (recorded[at(op)] < step.op_count) {
      line('c', recorded[at(op)]);
    } else {
      continue;
    }
    for (const ValueId v : dead_after(problem, found.schedule, liveness, t)) give_up(v);
  }
  return text;
}

}  // namespace

Result<RecordedSwapPlan> plan_recorded_swaps(const RecordedStep& step, std::int64_t limit_bytes,
                                             const SearchEffort& effort, const Tier& tier) {
  const auto start = std::chrono::steady_clock::now();
  auto recomputed = plan_recorded_step(step, limit_bytes, effort);
  if (!recomputed.ok() && recomputed.status().code() != StatusCode::resource_exhausted) {
    return recomputed.status();
  }
  PlanOptions options;
  options.host = tier;
  const std::vector<Form> forms = find_forms(step.problem, options);
  const std::int64_t arena_limit = limit_bytes - step.problem.parameter_bytes;
  const double base_seconds = static_cast<double>(step.total_nanoseconds) * 1e-9;
  SearchEffort quick = effort;
  quick.level = SearchEffort::Level::quick;
  const auto search = [&](const Problem& problem, std::int64_t limit) {
    return search_schedule(problem, limit, 0, quick);
  };
  const auto refine = [&](const Problem& problem, std::int64_t limit) {
    return search_schedule(problem, limit, 0, effort);
  };
  auto found = plan_remedies(step.problem, forms, options, arena_limit, base_seconds, search,
                             effort.level == SearchEffort::Level::quick ? Recomputer() : refine);
  const double alone = recomputed.ok() ? recomputed->predicted_seconds : -1;
  RecordedSwapPlan result;
  if (recomputed.ok()) result.plan = std::move(*recomputed);
  if (!found || (alone >= 0 && alone <= found->seconds)) {
    if (alone < 0) return recomputed.status();
    result.actions = schedule_text(step, result.plan.schedule);
    result.plan.schedule.clear();
    return result;
  }
  Schedule once(static_cast<std::size_t>(step.problem.op_count()));
  std::iota(once.begin(), once.end(), 0);
  RecordedPlan& plan = result.plan;
  plan.schedule.clear();
  plan.limit_bytes = limit_bytes;
  plan.peak_bytes = found->peak + step.problem.parameter_bytes;
  plan.unlimited_peak_bytes = recorded_cost(step, once).peak_bytes;
  plan.unlimited_seconds = plan.lower_bound_seconds = base_seconds;
  plan.predicted_seconds = found->seconds;
  plan.overhead = 100.0 * (found->seconds / base_seconds - 1);
  result.stalled_seconds = simulate(*found->problem, found->schedule).stalled;
  for (const Op& op : found->problem->ops) {
    if (op.kind == StepKind::swap_out) {
      const auto id = static_cast<OpId>(&op - found->problem->ops.data());
      result.swapped_bytes += found->problem->values[at(found->problem->reads[id].front())].bytes;
    }
  }
  result.actions = actions_of(step, *found, found->origin);
  plan.planning_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace plimsoll::planner
