// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/search.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/planner/bound/bound.h"
#include "runtime/planner/order/search_orders.h"
#include "runtime/planner/remat/local_search.h"
#include "runtime/planner/remat/remat.h"
#include "runtime/planner/remat/search_clock.h"
#include "runtime/planner/remat/weight_search.h"

namespace plimsoll::planner {
namespace {

// Units of SearchClock per op: about a millisecond.
constexpr double kWorkPerOp = 1.2e6;
// A few simulations more, about a hundredth of a millisecond per op.
constexpr double kQuickWorkPerOp = 16'000;
// A search begins at several places, in different orders where those may change, and goes on from
// the best. Shares of the work: of all first simulations, of the simulations of each place that is
// kept then, of the simulations and of the local search from the best of these.
constexpr std::size_t kMostStarts = 6;
constexpr std::size_t kSeeds = 4;
constexpr double kFirstShare = 0.15;
constexpr std::size_t kKept = 3;
constexpr double kKeptShare = 0.05;
constexpr double kSimulationShare = 0.4;
constexpr double kLocalShare = 1 - kFirstShare - kKept * kKeptShare - kSimulationShare;
// Bringing a schedule within a lower limit: the share of the limit that a step leaves, how often
// steps may fail, and the search in between.
constexpr double kFitStep = 0.97;
constexpr int kMostFitFailures = 12;
constexpr double kWorkPerFit = 3e4;
// Prices that guide need not prove anything.
constexpr BoundEffort kGuide{.rounds = 8, .polish_rounds = 0, .nodes = 0};
constexpr int kGuideRecomputations = 16;
// Where more is computed again than this, the bound is far off, and its prices mislead.
constexpr double kMuchAgain = 1.25;
// Where no more than this is, other orders gain little: the work goes into the given one, and a
// share more into the others.
constexpr double kLittleAgain = 1.03, kOthersShare = 0.5;

// Where no simulation gets through: a schedule for more memory, with more evicted until it fits.
//
// Near the floor no simulation may get through although a schedule exists: a simulation never takes
// back what it has kept. A schedule for more memory is then lowered by steps of 3 % of the limit,
// each by evicting at the peak (LocalSearch::fit) and shaking the schedule in between.
std::optional<Schedule> from_above(const Problem& problem, LocalSearch& local,
                                   std::int64_t arena_limit, std::int64_t min_bytes,
                                   std::span<const Schedule> starts, SearchClock& clock) {
  std::vector<Schedule> from(starts.begin(), starts.end());
  for (const double more : {1.1, 1.25, 1.5, 2.0}) {
    const auto limit = static_cast<std::int64_t>(more * static_cast<double>(arena_limit));
    if (auto schedule = rematerialize(problem, limit, min_bytes, 0)) {
      from.push_back(std::move(*schedule));
    }
  }
  std::optional<Schedule> best;
  for (Schedule& schedule : from) {
    if (!is_valid(problem, schedule)) continue;
    // In steps, as what is evicted for a little may stand in the way of what must be; where a step
    // fails, other schedules for the step before are tried.
    std::int64_t limit = evaluate(problem, schedule).arena_peak;
    for (int failures = 0; limit > arena_limit && failures < kMostFitFailures;) {
      if (clock.done() >= 1) return best;
      if (failures > 0) {
        SearchClock between(static_cast<std::int64_t>(kWorkPerFit * problem.op_count()), 0);
        local.improve(schedule, limit, between);
        clock.spend(static_cast<std::int64_t>(kWorkPerFit * problem.op_count()));
      }
      const std::int64_t next =
          std::max(arena_limit, static_cast<std::int64_t>(kFitStep * static_cast<double>(limit)));
      Schedule lower = schedule;
      if (local.fit(lower, next, clock)) {
        schedule = std::move(lower);
        limit = evaluate(problem, schedule).arena_peak;
      } else {
        ++failures;
      }
    }
    if (limit > arena_limit) continue;
    if (best && total_seconds(problem, schedule) >= total_seconds(problem, *best)) continue;
    best = std::move(schedule);
  }
  return best;
}

// A place to begin at: an order of first executions, and simulations along it.
struct Start {
  std::vector<OpId> order;
  std::shared_ptr<const Problem> problem;  // in that order
  std::optional<WeightSearch> simulations;
  std::optional<Schedule> found;  // of `problem`
  double seconds() const {
    return found ? total_seconds(*problem, *found) : std::numeric_limits<double>::infinity();
  }
};

double once_seconds(const Problem& problem) {
  double seconds = 0;
  for (const Op& op : problem.ops) seconds += op.seconds;
  return seconds;
}

// Places in the problem's own order share the problem.
std::shared_ptr<const Problem> in_order(const Problem& problem, const std::vector<OpId>& order) {
  if (std::is_sorted(order.begin(), order.end())) {
    return {std::shared_ptr<const Problem>(), &problem};
  }
  return std::make_shared<const Problem>(reordered(problem, order));
}

// `prices` are of the problem's own order; empty: none guide.
std::vector<std::unique_ptr<Start>> list_starts(const Problem& problem, std::int64_t arena_limit,
                                                std::int64_t min_bytes, bool reorder,
                                                std::span<const double> prices) {
  auto orders = reorder ? search_orders(problem) : std::vector<std::vector<OpId>>();
  if (orders.size() > kMostStarts) orders.resize(kMostStarts);
  if (orders.size() < kSeeds) {
    orders.resize(kSeeds, each_once(problem));
  }
  std::vector<std::unique_ptr<Start>> starts;
  std::vector<double> there;
  for (std::vector<OpId>& order : orders) {
    auto start = std::make_unique<Start>();
    start->order = std::move(order);
    start->problem = in_order(problem, start->order);
    there.clear();
    if (!prices.empty()) {
      for (const OpId op : start->order) there.push_back(prices[at(op)]);
    }
    start->simulations.emplace(*start->problem, min_bytes, arena_limit, starts.size() + 1, there);
    starts.push_back(std::move(start));
  }
  return starts;
}

std::optional<Schedule> from_starts(const Problem& problem, std::int64_t arena_limit,
                                    std::int64_t min_bytes, const SearchEffort& effort,
                                    const std::optional<Schedule>& best,
                                    std::span<const double> prices, auto&& clock) {
  const auto has = [&](Technique technique) { return !effort.without.contains(technique); };
  auto starts = list_starts(problem, arena_limit, min_bytes, effort.reorder, prices);
  if (!has(Technique::starts)) starts.resize(1);
  // Only the first, in the problem's own order, goes on from what there is: the others are to find
  // something else.
  starts.front()->found = best;
  const double share = kFirstShare / static_cast<double>(starts.size());
  const auto simulate = [&](Start& start, double part) {
    if (!has(Technique::weights)) return;
    SearchClock some = clock(part);
    start.simulations->run(start.found, some);
  };
  for (auto& start : starts) simulate(*start, share);
  const auto faster = [](const auto& a, const auto& b) { return a->seconds() < b->seconds(); };
  std::stable_sort(starts.begin(), starts.end(), faster);
  starts.resize(std::min(starts.size(), kKept));
  std::erase_if(starts, [](const auto& start) { return !start->found; });
  if (starts.empty()) return std::nullopt;
  for (auto& start : starts) simulate(*start, kKeptShare);
  Start& first = **std::min_element(starts.begin(), starts.end(), faster);
  simulate(first, kSimulationShare);
  if (has(Technique::local_search)) {
    SearchClock local_clock = clock(kLocalShare);
    LocalSearch local(*first.problem, min_bytes, effort.reorder, 1);
    local.improve(*first.found, arena_limit, local_clock);
  }
  for (OpId& op : *first.found) op = first.order[at(op)];
  return std::move(first.found);
}

}  // namespace

std::optional<Schedule> search_schedule(const Problem& problem, std::int64_t arena_limit,
                                        std::int64_t min_bytes, const SearchEffort& effort,
                                        std::span<const Schedule> starts) {
  std::optional<Schedule> best;
  if (!effort.simulated) {
    best = rematerialize(problem, arena_limit, min_bytes, 0, effort.without);
  }
  const auto offer = [&](Schedule schedule) {
    if (best && total_seconds(problem, schedule) >= total_seconds(problem, *best)) return;
    best = std::move(schedule);
  };
  for (const Schedule& start : starts) {
    if (is_valid(problem, start) && evaluate(problem, start).arena_peak <= arena_limit) {
      offer(start);
    }
  }
  const auto ops = at(problem.op_count());
  if (best && best->size() == ops) return best;
  if (effort.level == SearchEffort::Level::quick) {
    if (effort.without.contains(Technique::weights)) return best;
    SearchClock clock(static_cast<std::int64_t>(kQuickWorkPerOp * problem.op_count()), 0);
    WeightSearch(problem, min_bytes, arena_limit, 1).run(best, clock);
    return best;
  }

  // What bytes cost where, as far as the best schedule is near the bound.
  std::vector<double> prices;
  if (!effort.without.contains(Technique::guide) && best &&
      total_seconds(problem, *best) < kMuchAgain * once_seconds(problem)) {
    LowerBound guide =
        lower_bound(make_bound_model(problem, kGuideRecomputations), arena_limit, kGuide);
    if (std::any_of(guide.prices.begin(), guide.prices.end(), [](double p) { return p != 0; })) {
      prices = std::move(guide.prices);
    }
  }
  double work = kWorkPerOp * effort.scale * problem.op_count(), seconds = effort.seconds;
  const auto clock = [&](double share) {
    return SearchClock(static_cast<std::int64_t>(work * share), seconds * share);
  };
  if (effort.reorder && best &&
      total_seconds(problem, *best) < kLittleAgain * once_seconds(problem)) {
    SearchEffort own = effort;
    own.reorder = false;
    seconds *= 1 - kOthersShare;
    if (auto found = from_starts(problem, arena_limit, min_bytes, own, best, prices, clock)) {
      offer(std::move(*found));
    }
    work *= kOthersShare;
  }
  if (auto found = from_starts(problem, arena_limit, min_bytes, effort, best, prices, clock)) {
    offer(std::move(*found));
  } else if (!best) {
    LocalSearch local(problem, min_bytes, effort.reorder, 1);
    SearchClock fit_clock = clock(kSimulationShare);
    best = from_above(problem, local, arena_limit, min_bytes, starts, fit_clock);
    SearchClock local_clock = clock(kLocalShare);
    if (best) local.improve(*best, arena_limit, local_clock);
  }
  return best;
}

}  // namespace plimsoll::planner
