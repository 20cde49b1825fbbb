// SPDX-License-Identifier: Apache-2.0
// What works at one target: in which orders and with which residuals sliced it is tried, and how.
#include "runtime/planner/ladder/ladder.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "runtime/planner/baselines/baselines.h"
#include "runtime/planner/ladder/order_trials.h"
#include "runtime/planner/order/order.h"
#include "runtime/planner/problem/callee_bytes.h"
#include "runtime/planner/remat/remat.h"
#include "runtime/planner/remat/search.h"
#include "runtime/planner/remedies/remedies_find.h"
#include "runtime/planner/remedies/remedies_plan.h"

namespace plimsoll::planner {
namespace {

// What simulations find and takes longer by more than this than the fastest plan of a target that
// only recomputes is not searched further.
constexpr double kNear = 1.1;
// The work of a search (SearchEffort::scale): of all that is tried, and of what becomes a level.
constexpr double kOfMany = 0.01, kOfOne = 0.02;
// What a limit costs less than this is not worth other remedies.
constexpr double kAsGoodAsFree = 1.002;

}  // namespace

void Ladder::keep_hinted(Problem& problem) {
  for (Value& value : problem.values) value.keep = value.keep || value.hint == Hint::keep;
}

// Other tiers are the entry's: what runs more than once has no bytes of its own there.
// A callee's values do not leave device memory.
PlanOptions Ladder::own_options() const {
  const Machine& machine = options_;
  return {options_, graph_.role == Role::entry ? machine : Machine(), options_};
}

void Ladder::add_sliced(std::span<const ScanResidual> residuals) {
  Sliced sliced;
  sliced.problem = slice_residuals(problem_, residuals, options_);
  sliced.options = {options_, without_residuals(residuals, options_), options_};
  sliced.forms = find_forms(sliced.problem, sliced.options);
  Schedule once = each_once(sliced.problem);
  evaluate(sliced.problem, once, &sliced.unlimited_profile);
  sliced_.push_back(std::move(sliced));
}

// A value with the hint `recompute` shall be the first to be evicted. Its producer's time counts a
// millionth in the search, so that recomputing it seems free; the schedule that comes out is timed
// with the real seconds.
std::optional<Schedule> Ladder::make_schedule(const Problem& problem, std::int64_t target,
                                              double least_seconds, Search how) const {
  const bool hinted = std::any_of(problem.values.begin(), problem.values.end(), [](const Value& v) {
    return v.hint == Hint::recompute && v.producer >= 0;
  });
  if (!hinted || options_.policy != Policy::default_) {
    return search(problem, target, least_seconds, how);
  }
  how.worth = std::numeric_limits<double>::infinity();
  Problem wanted = problem;
  for (const Value& v : problem.values) {
    if (v.hint == Hint::recompute && v.producer >= 0) {
      wanted.ops[v.producer].seconds *= 1e-6;
    }
  }
  return search(wanted, target, 0, how);
}

std::optional<Schedule> Ladder::search(const Problem& problem, std::int64_t target,
                                       double least_seconds, Search how) const {
  if (is_stopped()) return std::nullopt;
  if (!options_.remedies.recompute) {
    Schedule once = each_once(problem);
    if (evaluate(problem, once).arena_peak > target) return std::nullopt;
    return once;
  }
  switch (options_.policy) {
#define PLIMSOLL_POLICY(enumerator, name, schedule) \
  case Policy::enumerator:                          \
    return schedule(problem, target, options_.min_bytes);
#include "runtime/planner/policies.def"
#undef PLIMSOLL_POLICY
    default:
      return search_more(problem, target, least_seconds, how);
  }
}

// The simulations' schedule, and a better one if there is time to look for it: the given time is
// divided between the levels that a limit needs; without, the work is counted. Of long programs
// what becomes a level is searched further, and nothing else (improved).
std::optional<Schedule> Ladder::search_more(const Problem& problem, std::int64_t target,
                                            double least_seconds, Search how) const {
  std::optional<Schedule> simulated;
  if (how.effort == Search::Effort::first_that_fits) {
    TechniqueSet without = options_.without;
    without.add(Technique::styles);
    simulated = rematerialize(problem, target, options_.min_bytes, least_seconds, without);
    if (simulated) return simulated;
  }
  simulated = rematerialize(problem, target, options_.min_bytes, least_seconds, options_.without);
  if (is_first_ || how.effort != Search::Effort::full || !simulated || searches_late_ ||
      total_seconds(problem, *simulated) > how.worth) {
    return simulated;
  }
  std::optional<Schedule> better = searched(problem, target, *simulated, kOfMany);
  // With less memory it may not be faster.
  return better && total_seconds(problem, *better) >= least_seconds ? better : simulated;
}

// What a search finds from `start`, which fits.
std::optional<Schedule> Ladder::searched(const Problem& problem, std::int64_t target,
                                         const Schedule& start, double scale) const {
  // About as many rungs as a ladder may need share the time.
  constexpr double kShare = 1.0 / 24;
  constexpr int kMostOps = 3'000;
  SearchEffort effort;
  effort.scale = scale;
  effort.without = options_.without;
  effort.simulated = true;
  effort.seconds = options_.planning_seconds * kShare;
  if (problem.op_count() > kMostOps && effort.seconds <= 0) return std::nullopt;
  return search_schedule(problem, target, options_.min_bytes, effort, {&start, 1});
}

// Of a rung whose schedule was simulated only: the same searched further, within what it needs.
// Nothing where that brings nothing or may not be used.
std::optional<Ladder::Rung> Ladder::improved(const Rung& rung, double least_seconds) {
  if (!searches_late_ || !streamable_.empty() || is_stopped() ||
      rung.seconds <= levels_.front().rung.seconds) {
    return std::nullopt;
  }
  select_variants(rung.variants);
  const Problem& problem = problem_of(rung);
  const bool is_fixed =
      std::any_of(problem.ops.begin(), problem.ops.end(),
                  [](const Op& op) { return op.engine >= 0 || op.transfer >= 0; }) ||
      std::any_of(problem.values.begin(), problem.values.end(),
                  [](const Value& v) { return v.hint == Hint::recompute; });
  if (is_fixed) return std::nullopt;
  std::optional<Schedule> found =
      searched(problem, rung.live - problem.constant_bytes, rung.schedule, kOfOne);
  if (!found) return std::nullopt;
  Rung better = make_rung(rung.target, std::move(*found), rung.problem);
  const bool is_better = better.seconds < rung.seconds && better.seconds >= least_seconds;
  return is_better ? std::optional(std::move(better)) : std::nullopt;
}

void Ladder::find_others() {
  if (std::exchange(looked_for_others_, true) || !movable_ || !residuals_.empty() ||
      options_.without.contains(Technique::orders)) {
    return;
  }
  const PlanOptions own = own_options();
  for (Problem& problem : arrange_others(graph_, problem_, levels_.front().rung.live)) {
    keep_hinted(problem);
    problem.constant_bytes = problem_.constant_bytes;
    Other other{std::move(problem), {}, {}};
    other.forms = find_forms(other.problem, own);
    Schedule once = each_once(other.problem);
    evaluate(other.problem, once, &other.unlimited_profile);
    others_.push_back(std::move(other));
  }
}

// The orders to plan in at `target`: the one that quick trials find fastest there; the own one as
// well in small computations and where it is about as fast; all of them where no trial gets there.
std::vector<Ladder::Start> Ladder::starts(std::int64_t target) {
  constexpr double kShort = 0.9, kAboutAsFast = 1.03;
  constexpr int kFewOps = 500;
  // Not those that the last question left.
  select_variants(levels_.front().rung.variants);
  std::vector<Start> all{{problem_, options_, forms_, unlimited_profile_}};
  if (is_first_) return all;
  if (static_cast<double>(target) > kShort * static_cast<double>(levels_.front().rung.live)) {
    return all;
  }
  find_others();
  if (others_.empty()) return all;
  for (Other& other : others_) {
    all.push_back({other.problem, options_, other.forms, other.unlimited_profile, false});
  }
  std::optional<double> least, own;
  std::size_t best = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::optional<double> seconds = quick_seconds(all[i].problem, target);
    if (i == 0) own = seconds;
    if (!seconds || (least && *seconds >= *least)) continue;
    least = seconds;
    best = i;
  }
  if (!least) return all;
  std::vector<Start> chosen;
  const bool close = own && *own <= kAboutAsFast * *least;
  if (best != 0 && (close || problem_.op_count() <= kFewOps)) chosen.push_back(all[0]);
  chosen.push_back(all[best]);
  return chosen;
}

// What works at `target`. Residuals are sliced where it takes time to do without.
std::vector<Ladder::Rung> Ladder::make_rungs(std::int64_t target, double least_seconds) {
  std::vector<Rung> rungs;
  double fastest = std::numeric_limits<double>::infinity();
  for (Start& start : starts(target)) {
    std::vector<Rung> more = make_rungs_of(start, target, least_seconds, fastest);
    std::move(more.begin(), more.end(), std::back_inserter(rungs));
  }
  const double least = levels_.front().rung.seconds;
  for (Sliced& sliced : sliced_) {
    if (std::any_of(rungs.begin(), rungs.end(),
                    [&](const Rung& r) { return r.seconds <= least; })) {
      break;
    }
    Start start{sliced.problem, sliced.options, sliced.forms, sliced.unlimited_profile, false};
    std::vector<Rung> more = make_rungs_of(start, target, least_seconds, fastest);
    std::move(more.begin(), more.end(), std::back_inserter(rungs));
  }
  return rungs;
}

// With the streamable constants on the device, and where that takes time, streamed.
std::vector<Ladder::Rung> Ladder::make_rungs_of(Start& start, std::int64_t target,
                                                double least_seconds, double& fastest) {
  std::vector<Rung> rungs;
  if (streamable_.empty() || target >= start.problem.constant_bytes + least_arena(start.problem)) {
    rungs = rungs_within(start, target, least_seconds, fastest);
  }
  const double least = levels_.front().rung.seconds;
  if (streamable_.empty() ||
      std::any_of(rungs.begin(), rungs.end(), [&](const Rung& r) { return r.seconds <= least; })) {
    return rungs;
  }
  Streamed& changed = streamed(start.problem);
  Start come_and_go{changed.problem, start.options, changed.forms, changed.unlimited_profile,
                    false};
  for (Rung& rung : rungs_within(come_and_go, target, least_seconds, fastest)) {
    rungs.push_back(settled(std::move(rung), target, least_seconds));
  }
  return rungs;
}

std::vector<Ladder::Rung> Ladder::rungs_within(Start& start, std::int64_t target,
                                               double least_seconds, double& fastest) const {
  const bool speeds_up_callees = !options_.without.contains(Technique::callees);
  std::vector<Rung> rungs;
  Problem& problem = start.problem;
  const std::int64_t arena = target - problem.constant_bytes;
  bool is_short = target < levels_.front().rung.live;
  if (!streamable_.empty() && problem.constant_bytes == 0) {
    is_short = std::any_of(start.unlimited_profile.begin(), start.unlimited_profile.end(),
                           [&](std::int64_t bytes) { return bytes > arena; });
  }
  for (const CalleeBytes& given : callee_bytes(graph_)) {
    choose_callees(problem, start.unlimited_profile, arena, given);
    std::optional<Schedule> schedule =
        make_schedule(problem, arena, least_seconds, {.worth = kNear * fastest});
    const double least = levels_.front().rung.seconds;
    if (schedule) fastest = std::min(fastest, predicted_seconds(problem, *schedule));
    const bool hinted = std::any_of(start.forms.begin(), start.forms.end(), [&](const Form& form) {
      const Hint hint = problem.values[form.value].hint;
      return hint == (form.kind == RemedyKind::compress ? Hint::compress : Hint::swap);
    });
    const bool is_free = schedule && predicted_seconds(problem, *schedule) <= kAsGoodAsFree * least;
    if (!start.forms.empty() && is_short && (hinted || !is_free)) {
      const auto recompute = [&](const Problem& changed, std::int64_t limit,
                                 std::span<const Schedule>, double effort) {
        const auto how = effort > 0    ? Search::Effort::full
                         : effort == 0 ? Search::Effort::simulate
                                       : Search::Effort::first_that_fits;
        return make_schedule(changed, limit, 0, {.effort = how});
      };
      auto plan = plan_remedies(problem, start.forms, start.options, arena, least, kNear * fastest,
                                recompute);
      if (plan) {
        if (hinted) schedule.reset();
        auto upgraded = std::make_shared<Problem>(*plan->problem);
        if (speeds_up_callees && use_available_bytes(*upgraded, plan->schedule, arena)) {
          plan->problem = std::move(upgraded);
        }
        rungs.push_back(make_rung(target, std::move(plan->schedule), std::move(plan->problem)));
      }
    }
    if (!schedule) continue;
    if (!start.own) {
      auto upgraded = std::make_shared<Problem>(problem);
      if (speeds_up_callees) use_available_bytes(*upgraded, *schedule, arena);
      rungs.push_back(make_rung(target, std::move(*schedule), std::move(upgraded)));
    } else {
      if (speeds_up_callees) use_available_bytes(problem, *schedule, arena);
      rungs.push_back(make_rung(target, std::move(*schedule)));
    }
  }
  return rungs;
}

}  // namespace plimsoll::planner
