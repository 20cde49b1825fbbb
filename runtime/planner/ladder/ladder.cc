// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/ladder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/planner/bound/bound.h"
#include "runtime/planner/ladder/emit.h"
#include "runtime/planner/ladder/lend_results.h"
#include "runtime/planner/ladder/order_trials.h"
#include "runtime/planner/order/order.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/problem/timeline.h"
#include "runtime/planner/remat/improve.h"
#include "runtime/planner/remedies/remedies_apply.h"
#include "runtime/planner/remedies/remedies_find.h"
#include "runtime/planner/remedies/remedies_plan.h"

// Why a ladder. Plans for different limits are made by heuristics, and a heuristic may find a
// slower plan for more memory. That must not be: whoever gives more memory must not lose time. So
// plans are not made per limit but at targets that no limit has a say in, from the top (everything
// kept) down, each no faster than the one above it; a limit takes the first one, from the top, that
// fits.
//
// Example: targets 100, 80, 60 MB, with plans of 10, 11 and 10.5 s found at them. The plan at 60 MB
// is faster than that at 80: it also fits 80 MB, so a limit of 80 MB takes it. A limit of 100 MB
// takes the one of 10 s, a limit of 70 MB the one of 10.5 s: more memory is never slower.
//
// Between two levels `portions` give a level's schedule some of the memory back up to the target
// above: cheaper than planning anew. Nothing below the answer is ever made, so that a generous
// limit costs next to nothing, and the floor, for which all must be made, costs most.

namespace plimsoll::planner {
namespace {

// What a proof may take where no time is given to plan in; some nanoseconds each.
constexpr std::int64_t kLeastBoundSteps = 2'000'000, kMostBoundSteps = 60'000'000;
constexpr std::int64_t kBoundStepsPerOp = 1'500;
// In shorter computations all that is tried is searched.
constexpr std::size_t kAllSearched = 64;
// Of the work of packing, for a first plan.
constexpr double kFirstPackEffort = 0.05;

}  // namespace

Ladder::Ladder(const Graph& graph, const PlanOptions& options, bool fixed_order,
               std::int64_t constant_bytes)
    : graph_(graph),
      options_(options),
      constant_bytes_(constant_bytes),
      is_first_(options.effort == Effort::first),
      movable_(!fixed_order && options.policy == Policy::default_ && options.remedies.recompute),
      may_overlap_(!fixed_order && options.policy == Policy::default_ &&
                   !options.without.contains(Technique::overlap)),
      searches_late_(options.policy == Policy::default_ && !is_first_ &&
                     options.planning_seconds <= 0 && graph.ops.size() > kAllSearched),
      problem_(arrange_best(graph, fixed_order || options.policy == Policy::greedy)) {
  keep_hinted(problem_);
  find_constants();
  if (options_.policy == Policy::default_ && !is_first_) {
    const PlanOptions own = own_options();
    forms_ = find_forms(problem_, own);
    if (!own.without.contains(Technique::slices)) residuals_ = find_residuals(problem_, own);
    for (std::size_t count = residuals_.size(); count > 0; count /= 2) {
      add_sliced(std::span(residuals_).first(count));
    }
  }
  Schedule once = each_once(problem_);
  const std::int64_t peak = evaluate(problem_, once, &unlimited_profile_).arena_peak;
  levels_.emplace_back();
  levels_.back().rung = make_rung(peak + problem_.constant_bytes, std::move(once));
  works_ = levels_.back().rung.target;
  set_targets();
}

Ladder::Rung Ladder::make_rung(std::int64_t target, Schedule schedule,
                               std::shared_ptr<const Problem> problem) const {
  Rung rung;
  rung.problem = std::move(problem);
  rung.target = target;
  const Problem& of = problem_of(rung);
  rung.live = evaluate(of, schedule).arena_peak + of.constant_bytes;
  rung.reached = arena_live_bytes(of, schedule) + of.constant_bytes;
  rung.seconds = predicted_seconds(of, schedule);
  rung.variants = problem_.variant;
  rung.schedule = std::move(schedule);
  return rung;
}

// The rung's plan, packed until its peak is at most `limit`, or as well as can be: without a limit,
// and where it does not get there. Whether it gets there does not depend on the limits asked for
// before (PackOptions::enough): the least limit that a rung serves is one number.
const Plan& Ladder::emit(Rung& rung, std::int64_t limit) {
  const bool is_enough = limit != kUnlimited && rung.plan.peak_bytes <= limit;
  if (rung.emitted && (rung.packed_fully || is_enough)) return rung.plan;
  select_variants(rung.variants);
  // Rounded down, as arenas are rounded up.
  const std::int64_t left = limit - fixed_bytes() - problem_of(rung).constant_bytes;
  const std::int64_t target =
      limit == kUnlimited ? 0
                          : std::max<std::int64_t>(0, left) / kBufferAlignment * kBufferAlignment;
  // A callee's plans are many, and what a limit asks for is tried at lower targets where it does
  // not fit at once.
  const bool recomputes = std::ssize(rung.schedule) > problem_of(rung).op_count();
  const bool is_quick = is_first_ && (recomputes || graph_.role != Role::entry);
  const double effort = is_quick ? kFirstPackEffort : 1;
  rung.plan = emit_plan(problem_of(rung), rung.schedule, target, effort);
  overlap(rung, effort);
  add_constants(rung.plan);
  rung.plan.unlimited_seconds = levels_.front().rung.seconds;
  rung.plan.lower_bound_seconds = levels_.front().rung.seconds;
  rung.emitted = true;
  rung.packed_fully = rung.plan.arena_bytes > target || target == 0;
  return rung.plan;
}

// Of a plan that was just made.
void Ladder::add_constants(Plan& plan) const {
  plan.by_cause.constants += constant_bytes_;
  plan.peak_bytes += constant_bytes_;
  plan.live_bytes += constant_bytes_;
}

// The emitted rung's peak; no limit where a tier is too small for its blocks. What is swapped out
// is chosen by live bytes, and blocks that do not lie as tightly may need more.
std::int64_t Ladder::served_from(const Rung& rung) const {
  for (const MemorySpace tier : kTiers) {
    if (rung.plan.tier_bytes[tier] > options_[tier].bytes) return kUnlimited;
  }
  return rung.plan.peak_bytes;
}

bool Ladder::fits(Rung& rung, std::int64_t limit) {
  if (reach(rung) > limit) return false;
  emit(rung, limit);
  return served_from(rung) <= limit;
}

// No op can run in less than its operands, results and workspace.
std::int64_t Ladder::least_arena(const Problem& problem) const {
  std::int64_t most = 0;
  for (const OpId op : problem.ops.ids()) {
    std::int64_t bytes = 0, reused = 0;
    for (const ValueId v : problem.reads[op]) {
      if (problem.in_arena(v)) bytes += least_bytes_at(problem, forms_, op, v);
    }
    for (const ValueId v : problem.outputs[op]) {
      if (v >= 0 && problem.in_arena(v)) bytes += least_bytes_at(problem, forms_, op, v);
    }
    for (const Reuse& r : problem.reuse[op]) {
      if (problem.in_arena(r.input) && problem.in_arena(r.output)) {
        reused += problem.values[r.output].bytes;
      }
    }
    const Op& what = problem.ops[op];
    const std::int64_t workspace =
        what.variants < 0 ? what.workspace : graph_.variants[at(what.variants)].back().arena_bytes;
    const SlicedLoop* sliced = problem.sliced_loop(op);
    const std::int64_t windows = sliced == nullptr ? 0 : sliced->window_bytes;
    most = std::max(most, bytes - std::min(reused, bytes) + workspace + windows);
  }
  return most;
}

void Ladder::set_targets() {
  if (options_.policy == Policy::none) return;
  if (!options_.remedies.recompute && forms_.empty() && graph_.variants.empty() &&
      streamable_.empty()) {
    return;
  }
  const std::int64_t top = levels_.front().rung.live;
  std::int64_t least = least_arena(problem_) + problem_.constant_bytes;
  if (!streamable_.empty()) least = least_arena(streamed(problem_).problem);
  if (!sliced_.empty()) {
    const Problem& problem = sliced_.front().problem;
    least = std::min(least, least_arena(streamable_.empty() ? problem : streamed(problem).problem));
  }
  const std::int64_t bottom = std::max({least, top / 512, std::int64_t{64}});
  if (bottom >= top) return;
  const int ops = problem_.op_count();
  const int steps = is_first_ ? 5 : ops <= 3'000 ? 14 : ops <= 30'000 ? 10 : 6;
  const double ratio = static_cast<double>(top) / static_cast<double>(bottom);
  for (int i = steps; i-- > 0;) {
    const double scale = std::pow(ratio, static_cast<double>(i) / steps);
    const auto target = static_cast<std::int64_t>(static_cast<double>(bottom) * scale) / 64 * 64;
    if (targets_.empty() || target < targets_.back()) targets_.push_back(target);
  }
  halvings_ = is_first_ ? 1 : ops <= 3'000 ? 6 : ops <= 30'000 ? 4 : 2;
}

// Adds what works at `target` to what is below the last level; false when nothing does. What is
// faster than the last level can't be used: with more memory there would be a slower plan.
bool Ladder::try_target(std::int64_t target) {
  const double least_seconds = levels_.back().rung.seconds;
  std::vector<Rung> rungs = make_rungs(target, least_seconds);
  const bool works = !rungs.empty();
  std::erase_if(rungs, [&](const Rung& rung) { return rung.seconds < least_seconds; });
  for (const Rung& rung : rungs) {
    if (!lowest_ ||
        std::tie(rung.reached, rung.seconds) < std::tie(lowest_->reached, lowest_->seconds)) {
      lowest_ = rung;
    }
  }
  const auto best = std::min_element(rungs.begin(), rungs.end(), [](const Rung& a, const Rung& b) {
    return std::tie(a.seconds, a.live) < std::tie(b.seconds, b.live);
  });
  if (best != rungs.end()) below_.push_back(std::move(*best));
  return works;
}

// Up to the target above, a level's schedule gets memory back in small portions: cheaper than
// planning anew. Makes those that may serve `limit`.
void Ladder::make_portions(Level& level, std::int64_t limit) {
  if (options_.policy != Policy::default_ || is_first_) return;
  if (level.portions_end <= level.rung.target) return;
  constexpr int kPortions = 5;
  for (; level.next_portion < kPortions; ++level.next_portion) {
    const Rung& before = level.portions.empty() ? level.rung : level.portions.back();
    if (before.seconds <= level.least_seconds) return;
    const std::int64_t target = level.rung.target + (level.portions_end - level.rung.target) *
                                                        level.next_portion / kPortions;
    if (portion_reach(target) > limit) return;
    select_variants(before.variants);
    Schedule schedule = before.schedule;
    // A transfer's time does not count in full: what is too fast then is left out below.
    KeepingBack(problem_of(before))
        .run(schedule, target - problem_of(before).constant_bytes,
             before.problem ? 0 : level.least_seconds);
    if (before.problem && !keeps_transfers(*before.problem, schedule)) continue;
    Rung portion = settled(make_rung(target, std::move(schedule), before.problem), target,
                           level.least_seconds);
    if (portion.schedule.size() == before.schedule.size()) continue;
    if (portion.seconds < level.least_seconds || portion.seconds > before.seconds) continue;
    level.portions.push_back(std::move(portion));
  }
}

void Ladder::select_variants(const IdVector<OpId, int>& variants) {
  for (const OpId op : problem_.ops.ids()) {
    const int choice = variants[op];
    if (choice >= 0) choose_variant(problem_, op, choice);
  }
}

// Tries what comes next below: the targets of the grid until two in a row fail, then some between
// the lowest that works and the one that does not. False when there is nothing left to try.
bool Ladder::try_next_target() {
  if (is_stopped()) return false;
  if (next_target_ < targets_.size()) {
    const std::int64_t target = targets_[next_target_++];
    if (try_target(target)) {
      works_ = target;
      fails_ = 0;
      failures_ = 0;
    } else {
      if (failures_ == 0) fails_ = target;
      if (++failures_ == 2) next_target_ = targets_.size();
    }
    return true;
  }
  if (fails_ == 0 || halvings_ == 0 || works_ - fails_ <= 64) return false;
  --halvings_;
  const std::int64_t middle = (fails_ + works_) / 2 / 64 * 64;
  if (try_target(middle)) {
    works_ = middle;
  } else {
    fails_ = middle;
  }
  return true;
}

// Makes the next level: the highest target that works, served by the fastest plan of it and of some
// targets below, so that a lucky find at a lower one is not lost.
//
// Looking a few targets ahead makes the example in the head of this file come out: the plan at 60
// MB is known when the level at 80 MB is made.
bool Ladder::extend() {
  const std::size_t ahead = problem_.op_count() <= 500 ? 3 : 1;
  while (below_.size() <= ahead && try_next_target()) {
  }
  if (below_.empty()) return add_lowest();
  const double least_seconds = levels_.back().rung.seconds;
  const Rung* best = nullptr;
  for (const Rung& rung : below_) {
    if (rung.seconds < least_seconds) continue;
    if (best == nullptr ||
        std::tie(rung.seconds, rung.live) < std::tie(best->seconds, best->live)) {
      best = &rung;
    }
  }
  if (best != nullptr) {
    Level level;
    level.rung = improved(*best, least_seconds).value_or(*best);
    level.rung.target = below_.front().target;
    level.portions_end = levels_.back().rung.target;
    level.least_seconds = least_seconds;
    levels_.push_back(std::move(level));
  }
  below_.pop_front();
  return true;
}

// The fastest of a target's plans becomes a level, and need not be the one that reaches least: how
// much results lend shows only then, and what is swapped is not lent any. The last level is the one
// that reaches least of all.
bool Ladder::add_lowest() {
  if (!lowest_ || is_stopped()) return false;
  Rung lowest = *std::exchange(lowest_, std::nullopt);
  for (const Level& level : levels_) {
    if (level.rung.reached <= lowest.reached) return false;
  }
  if (lowest.seconds < levels_.back().rung.seconds) return false;
  Level level;
  level.rung = std::move(lowest);
  levels_.push_back(std::move(level));
  return true;
}

bool Ladder::keeps_all(std::int64_t limit) {
  Rung& top = levels_.front().rung;
  return reach(top) <= limit && emit(top, kUnlimited).peak_bytes <= limit;
}

const Plan* Ladder::best(std::int64_t limit) {
  if (is_first_ && limit != kUnlimited) return first_plan(limit);
  if (keeps_all(limit)) return &roomiest(limit);
  for (std::size_t i = 1;; ++i) {
    while (i == levels_.size()) {
      if (!extend()) return nullptr;
    }
    Level& level = levels_[i];
    make_portions(level, limit);
    for (std::size_t k = level.portions.size(); k-- > 0;) {
      Rung& portion = level.portions[k];
      if (portion_reach(portion.target) <= limit && fits(portion, limit)) return &portion.plan;
    }
    if (fits(level.rung, limit)) return &level.rung.plan;
  }
}

std::int64_t Ladder::floor() {
  while (extend()) {
  }
  std::int64_t best = kUnlimited;
  for (std::size_t i = levels_.size(); i-- > 0;) {
    Level& level = levels_[i];
    if (reach(level.rung) < best) {
      emit(level.rung, kUnlimited);
      best = std::min(best, served_from(level.rung));
    }
    make_portions(level, best - 1);
    for (Rung& portion : level.portions) {
      const std::int64_t reached = std::max(reach(portion), portion_reach(portion.target));
      if (reached >= best) continue;
      emit(portion, kUnlimited);
      best = std::min(best, std::max(reached, served_from(portion)));
    }
  }
  return best;
}

const Plan& Ladder::lowest() { return *best(floor()); }

std::vector<std::shared_ptr<const Plan>> Ladder::pareto(int most) {
  while (extend()) {
  }
  std::vector<Rung*> rungs;
  for (Level& level : levels_) {
    make_portions(level, kUnlimited);
    rungs.push_back(&level.rung);
    for (Rung& portion : level.portions) rungs.push_back(&portion);
  }
  for (Rung* rung : rungs) emit(*rung, kUnlimited);
  std::stable_sort(rungs.begin(), rungs.end(), [](const Rung* a, const Rung* b) {
    return std::tie(a->seconds, a->plan.arena_bytes) < std::tie(b->seconds, b->plan.arena_bytes);
  });
  std::vector<const Rung*> front;
  for (const Rung* rung : rungs) {
    if (front.empty() || rung->plan.arena_bytes < front.back()->plan.arena_bytes) {
      front.push_back(rung);
    }
  }
  std::vector<std::shared_ptr<const Plan>> plans;
  const std::size_t count = std::min(front.size(), at(most));
  for (std::size_t k = 0; k < count; ++k) {
    // Both ends, and what lies evenly between them.
    const std::size_t i = count == 1 ? 0 : k * (front.size() - 1) / (count - 1);
    plans.push_back(std::make_shared<const Plan>(front[i]->plan));
  }
  return plans;
}

// No plan of the problem in its order is better than the best of this one.
Problem Ladder::relaxed(const Problem& problem) const {
  return relax_constants(relax_residuals(problem, residuals_), streamable_);
}

// What results lend is room that no schedule has to make.
BoundModel Ladder::bound_model_of(const Problem& problem) const {
  BoundModel model = make_plan_bound_model(problem, options_);
  const IdVector<OpId, std::int64_t> lent = lent_at_most(problem);
  for (const OpId op : lent.ids()) model.need[op.index()] -= lent[op];
  return model;
}

const BoundModel& Ladder::bound_model() {
  if (!bound_model_) bound_model_ = bound_model_of(relaxed(problem_));
  return *bound_model_;
}

std::int64_t Ladder::floor_lower_bound() {
  std::int64_t least = least_arena_bytes(bound_model());
  for (const Other& other : others_) {
    const Problem problem = relax_constants(other.problem, streamable_);
    least = std::min(least, least_arena_bytes(bound_model_of(problem)));
  }
  return fixed_bytes() + std::max<std::int64_t>(0, least);
}

// The ladder's own ops in the order in which the rung's schedule first runs them.
std::vector<OpId> Ladder::order_of(const Rung& rung) const {
  const Problem& problem = problem_of(rung);
  std::map<std::tuple<const ir::Instruction*, StepKind, int>, OpId> own;
  const auto name = [](const Op& op) { return std::tuple(op.instruction, op.kind, op.leaf); };
  for (const OpId op : problem_.ops.ids()) {
    own.emplace(name(problem_.ops[op]), op);
  }
  IdVector<OpId, char> seen(problem.ops.size(), 0);
  std::vector<OpId> order;
  for (const OpId op : rung.schedule) {
    const Op& what = problem.ops[op];
    const bool moves = what.engine >= 0 || what.transfer >= 0;
    if (moves || what.codec.kind != CodecKind::none) continue;
    if (std::exchange(seen[op], 1)) continue;
    const auto found = own.find(name(what));
    if (found != own.end()) order.push_back(found->second);
  }
  return order;
}

double Ladder::lower_bound_seconds(std::int64_t limit, const Plan& plan) {
  // Everything once, which holds in every order.
  const double once = levels_.front().rung.seconds;
  if (is_first_ || is_stopped() || reach(levels_.front().rung) <= limit) return once;
  const Rung* planned = nullptr;
  for (const Level& level : levels_) {
    if (&level.rung.plan == &plan) planned = &level.rung;
    for (const Rung& portion : level.portions) {
      if (&portion.plan == &plan) planned = &portion;
    }
  }
  if (planned == nullptr) return once;
  const std::vector<OpId> order = order_of(*planned);
  if (static_cast<int>(order.size()) != problem_.op_count()) return once;
  BoundEffort effort;
  if (options_.planning_seconds <= 0) {
    effort.steps =
        std::clamp(kBoundStepsPerOp * problem_.op_count(), kLeastBoundSteps, kMostBoundSteps);
  }
  if (!std::is_sorted(order.begin(), order.end())) {
    const Problem in_order =
        relax_constants(reordered(relax_residuals(problem_, residuals_), order), streamable_);
    const BoundModel model = bound_model_of(in_order);
    return lower_bound(model, limit - fixed_bytes(), effort).seconds;
  }
  return lower_bound(bound_model(), limit - fixed_bytes(), effort).seconds;
}

Result<Plan> Ladder::plan_with(const Chooser& choose) {
  Rung& top = levels_.front().rung;
  select_variants(top.variants);
  const std::vector<Form> forms = find_forms(problem_, options_);
  PLIMSOLL_ASSIGN_OR_RETURN(const Problem problem,
                            apply_choices(problem_, choose(problem_, forms)));
  Schedule once = each_once(problem);
  Plan plan = emit_plan(problem, once, 0);
  add_constants(plan);
  plan.unlimited_seconds = plan.lower_bound_seconds = top.seconds;
  return plan;
}

}  // namespace plimsoll::planner
