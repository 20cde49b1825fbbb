// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "runtime/planner/emit.h"
#include "runtime/planner/greedy_schedule.h"
#include "runtime/planner/improve.h"
#include "runtime/planner/order.h"
#include "runtime/planner/remat.h"

namespace plimsoll::planner {

Ladder::Ladder(const Graph& graph, const PlanOptions& options, bool fixed_order,
               std::int64_t constant_bytes)
    : graph_(graph),
      options_(options),
      constant_bytes_(constant_bytes),
      problem_(arrange_best(graph, fixed_order || options.policy == Policy::greedy)) {
  Schedule once(static_cast<std::size_t>(problem_.op_count()));
  std::iota(once.begin(), once.end(), 0);
  const std::int64_t peak = evaluate(problem_, once, &unlimited_profile_).arena_peak;
  add_rung(peak, std::move(once));
  set_targets();
}

void Ladder::add_rung(std::int64_t target, Schedule schedule) {
  Rung rung;
  const Evaluation e = evaluate(problem_, schedule);
  rung.target = target;
  rung.live = e.arena_peak;
  rung.seconds = e.seconds;
  rung.variants = problem_.variant;
  rung.schedule = std::move(schedule);
  rungs_.push_back(std::move(rung));
}

// The rung's plan, packed until its peak is at most `limit` or as well as can be.
const Plan& Ladder::emit(Rung& rung, std::int64_t limit) {
  if (rung.emitted && (rung.packed_fully || rung.plan.peak_bytes <= limit)) return rung.plan;
  select_variants(rung.variants);
  const std::int64_t target =
      limit == kUnlimited ? 0 : std::max<std::int64_t>(0, limit - fixed_bytes());
  rung.plan = emit_plan(problem_, rung.schedule, target, 1);
  rung.plan.by_cause.constants = constant_bytes_;
  rung.plan.peak_bytes += constant_bytes_;
  rung.plan.live_bytes += constant_bytes_;
  rung.plan.unlimited_seconds = rungs_.front().seconds;
  rung.plan.lower_bound_seconds = rungs_.front().seconds;
  rung.emitted = true;
  rung.packed_fully = rung.plan.arena_bytes > target || target == 0;
  return rung.plan;
}

// A schedule made for a target may serve limits somewhat below it when it came out smaller.
std::int64_t Ladder::reach(std::int64_t target, std::int64_t live) const {
  return fixed_bytes() + std::max(live, (target - target / 8) / 64 * 64);
}

// No op can run in less than its operands, results and workspace.
std::int64_t Ladder::least_arena() {
  std::int64_t most = 0;
  for (OpId op = 0; op < problem_.op_count(); ++op) {
    std::int64_t bytes = 0, reused = 0;
    for (const ValueId v : problem_.reads[op]) {
      if (problem_.in_arena(v)) bytes += problem_.values[static_cast<std::size_t>(v)].bytes;
    }
    for (const ValueId v : problem_.outputs[op]) {
      if (v >= 0 && problem_.in_arena(v))
        bytes += problem_.values[static_cast<std::size_t>(v)].bytes;
    }
    for (const Reuse& r : problem_.reuse[static_cast<std::size_t>(op)]) {
      if (problem_.in_arena(r.input) && problem_.in_arena(r.output)) {
        reused += problem_.values[static_cast<std::size_t>(r.output)].bytes;
      }
    }
    const Op& what = problem_.ops[static_cast<std::size_t>(op)];
    const std::int64_t workspace =
        what.variants < 0
            ? what.workspace
            : graph_.variants[static_cast<std::size_t>(what.variants)].back().arena_bytes;
    most = std::max(most, bytes - std::min(reused, bytes) + workspace);
  }
  return most;
}

void Ladder::set_targets() {
  if (options_.policy == Policy::none || !options_.allow_recompute) return;
  const std::int64_t top = rungs_.front().live;
  const std::int64_t bottom = std::max({least_arena(), top / 512, std::int64_t{64}});
  if (bottom >= top) return;
  const int ops = problem_.op_count();
  const int steps = ops <= 3'000 ? 14 : ops <= 30'000 ? 10 : 6;
  const double ratio = static_cast<double>(top) / static_cast<double>(bottom);
  for (int i = 0; i < steps; ++i) {
    const double scale = std::pow(ratio, static_cast<double>(i) / steps);
    const auto target = static_cast<std::int64_t>(static_cast<double>(bottom) * scale) / 64 * 64;
    if (targets_.empty() || target > targets_.back()) targets_.push_back(target);
  }
  tried_.assign(targets_.size(), 0);
}

// Each loop, call and conditional gets its fastest callee plans that fit beside its own operands,
// and, with `leave_room`, beside everything that lives across it when nothing is given up.
void Ladder::choose_variants(std::int64_t target, bool leave_room) {
  for (OpId op = 0; op < problem_.op_count(); ++op) {
    const Op& what = problem_.ops[static_cast<std::size_t>(op)];
    if (what.variants < 0) continue;
    std::int64_t others = 0;
    if (leave_room) {
      others = unlimited_profile_[static_cast<std::size_t>(op)] -
               graph_.variants[static_cast<std::size_t>(what.variants)].front().arena_bytes;
    } else {
      for (const ValueId v : problem_.reads[op]) {
        if (problem_.in_arena(v)) others += problem_.values[static_cast<std::size_t>(v)].bytes;
      }
    }
    const auto& row = graph_.variants[static_cast<std::size_t>(what.variants)];
    int choice = 0;
    while (choice + 1 < static_cast<int>(row.size()) &&
           row[static_cast<std::size_t>(choice)].arena_bytes > target - others) {
      ++choice;
    }
    choose_variant(problem_, op, choice);
  }
}

std::optional<Schedule> Ladder::make_schedule(std::int64_t target) const {
  switch (options_.policy) {
    case Policy::greedy:
      return greedy_schedule(problem_, target, options_.min_recompute_bytes);
    case Policy::sqrt:
      return checkpoint_sqrt(problem_, target);
    default:
      return rematerialize(problem_, target, options_.min_recompute_bytes);
  }
}

bool Ladder::try_target(std::int64_t target) {
  bool found = false;
  const bool controls = !graph_.variants.empty();
  for (const bool leave_room : {true, false}) {
    if (!leave_room && !controls) break;
    choose_variants(target, leave_room);
    std::optional<Schedule> schedule = make_schedule(target);
    if (!schedule) continue;
    add_rung(target, std::move(*schedule));
    found = true;
  }
  return found;
}

bool Ladder::try_step(std::size_t step) {
  if (tried_[step] != 0) return tried_[step] == 2;
  const std::size_t before = rungs_.size();
  tried_[step] = try_target(targets_[step]) ? 2 : 1;
  if (tried_[step] != 2 || options_.policy != Policy::default_) return tried_[step] == 2;
  // Up to the next target, the best schedule gets memory back in small portions: cheaper than
  // planning anew.
  constexpr int kPortions = 5;
  const std::int64_t next = step + 1 < targets_.size() ? targets_[step + 1] : rungs_.front().live;
  std::size_t best = before;
  for (std::size_t i = before; i < rungs_.size(); ++i) {
    if (rungs_[i].seconds < rungs_[best].seconds) best = i;
  }
  select_variants(rungs_[best].variants);
  Schedule schedule = rungs_[best].schedule;
  for (int portion = 1; portion < kPortions; ++portion) {
    const std::int64_t target = targets_[step] + (next - targets_[step]) * portion / kPortions;
    keep_where_it_fits(problem_, schedule, target);
    add_rung(target, schedule);
  }
  return true;
}

void Ladder::select_variants(const std::vector<int>& variants) {
  for (OpId op = 0; op < problem_.op_count(); ++op) {
    const int choice = variants[static_cast<std::size_t>(op)];
    if (choice >= 0) choose_variant(problem_, op, choice);
  }
}

// The lowest target that works, by bisection on the grid and then between its steps. What is tried
// here depends on no limit.
void Ladder::find_bottom() {
  if (found_bottom_) return;
  found_bottom_ = true;
  std::size_t low = 0, high = targets_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (try_step(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::int64_t fails = high > 0 && high <= targets_.size() ? targets_[high - 1] : 0;
  std::int64_t works = high < targets_.size() ? targets_[high] : rungs_.front().live;
  if (high == 0 || targets_.empty()) return;
  const int ops = problem_.op_count();
  const int halvings = ops <= 3'000 ? 6 : ops <= 30'000 ? 4 : 2;
  for (int i = 0; i < halvings && works - fails > 64; ++i) {
    const std::int64_t middle = (fails + works) / 2 / 64 * 64;
    if (try_target(middle)) {
      works = middle;
    } else {
      fails = middle;
    }
  }
}

void Ladder::extend(std::int64_t limit) {
  find_bottom();
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    if (reach(targets_[i], 0) <= limit) try_step(i);
  }
}

const Plan* Ladder::best(std::int64_t limit) {
  if (reach(rungs_.front()) <= limit && emit(rungs_.front(), kUnlimited).peak_bytes <= limit) {
    return &rungs_.front().plan;
  }
  extend(limit);
  std::vector<std::tuple<double, std::int64_t, std::size_t>> order;
  for (std::size_t i = 1; i < rungs_.size(); ++i) {
    if (reach(rungs_[i]) <= limit) order.emplace_back(rungs_[i].seconds, rungs_[i].live, i);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [seconds, live, i] : order) {
    if (emit(rungs_[i], limit).peak_bytes <= limit) return &rungs_[i].plan;
  }
  return nullptr;
}

std::int64_t Ladder::floor() {
  find_bottom();
  std::int64_t best = std::max(reach(rungs_.front()), emit(rungs_.front(), kUnlimited).peak_bytes);
  // More targets only matter while they could still lie below.
  for (std::size_t done = 0, step = 0;;) {
    for (; done < rungs_.size(); ++done) {
      if (reach(rungs_[done]) >= best) continue;
      best =
          std::min(best, std::max(reach(rungs_[done]), emit(rungs_[done], kUnlimited).peak_bytes));
    }
    while (step < targets_.size() && tried_[step] != 0) ++step;
    if (step == targets_.size() || reach(targets_[step], 0) >= best) return best;
    try_step(step);
  }
}

const Plan& Ladder::lowest() { return *best(floor()); }

std::vector<std::shared_ptr<const Plan>> Ladder::pareto(int most) {
  extend(kUnlimited);
  std::vector<std::tuple<double, std::int64_t, std::size_t>> order;
  for (std::size_t i = 0; i < rungs_.size(); ++i) {
    order.emplace_back(rungs_[i].seconds, emit(rungs_[i], kUnlimited).arena_bytes, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> front;
  for (const auto& [seconds, arena, i] : order) {
    if (front.empty() || arena < rungs_[front.back()].plan.arena_bytes) front.push_back(i);
  }
  std::vector<std::shared_ptr<const Plan>> plans;
  const std::size_t count = std::min(front.size(), static_cast<std::size_t>(most));
  for (std::size_t k = 0; k < count; ++k) {
    // Both ends, and what lies evenly between them.
    const std::size_t i = count == 1 ? 0 : k * (front.size() - 1) / (count - 1);
    plans.push_back(std::make_shared<const Plan>(rungs_[front[i]].plan));
  }
  return plans;
}

}  // namespace plimsoll::planner
