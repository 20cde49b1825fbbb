// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/remat.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "runtime/planner/remat/chain.h"
#include "runtime/planner/remat/eviction_simulation.h"
#include "runtime/planner/remat/improve.h"

namespace plimsoll::planner {
namespace {

struct Best {
  Best(const Problem& problem, bool keeps_back) : keeping(problem), keeps(keeps_back) {}

  KeepingBack keeping;
  bool keeps;
  std::optional<Schedule> schedule;
  double seconds = 0;
  std::int64_t peak = 0;
  std::optional<Schedule> too_cheap;

  void offer(const Problem& problem, Schedule candidate, std::int64_t arena_limit,
             double least_seconds) {
    drop_unread(problem, candidate);
    const Evaluation before = evaluate(problem, candidate);
    if (before.arena_peak > arena_limit) return;
    if (before.seconds < least_seconds) {
      too_cheap = std::move(candidate);
      return;
    }
    if (keeps) keeping.run(candidate, arena_limit, least_seconds);
    const Evaluation e = evaluate(problem, candidate);
    if (schedule && std::tuple(e.seconds, e.arena_peak) >= std::tuple(seconds, peak)) return;
    schedule = std::move(candidate);
    seconds = e.seconds;
    peak = e.arena_peak;
  }
};

}  // namespace

std::optional<Schedule> rematerialize(const Problem& problem, std::int64_t arena_limit,
                                      std::int64_t min_bytes, double least_seconds,
                                      const TechniqueSet& without) {
  Schedule once = each_once(problem);
  std::vector<std::int64_t> profile;
  const Evaluation all = evaluate(problem, once, &profile);
  if (all.arena_peak <= arena_limit) return once;

  EvictionSimulation simulation(problem, min_bytes);
  simulation.set_profile(profile, arena_limit);
  const std::size_t bound = most_executions(problem);
  Best best(problem, !without.contains(Technique::keeping_back));
  // A simulation's time falls a little when it is improved; beyond this it cannot win any more.
  const auto most_seconds = [&] {
    return best.schedule ? best.seconds * 1.3 : std::numeric_limits<double>::infinity();
  };
  // Beyond this no other can gain anything to speak of.
  constexpr double kAsGoodAsOnce = 1.0005;
  const double enough = std::max(least_seconds, kAsGoodAsOnce * all.seconds);
  constexpr std::int64_t kChainEffort = 1'000'000;
  if (min_bytes == 0 && !without.contains(Technique::chains)) {
    if (auto schedule = chain_schedule(problem, arena_limit, kChainEffort)) {
      best.offer(problem, std::move(*schedule), arena_limit, least_seconds);
    }
  }
  // The portfolio. 0: DTR's score with known next uses. 1: distance counts less (a value wanted
  // soon may still be the cheapest). 2: distance does not count, and dead values stay while there
  // is room. 3: distance is measured where bytes are short. 4: cost counts less (many small
  // recomputations instead of a dear one). No style wins everywhere, and a simulation is cheap.
  std::vector<SimulationStyle> styles(5);
  styles[1].interval_power = 0.5;
  styles[2].interval_power = 0;
  styles[2].keep_dead = true;
  styles[3].weighted_interval = true;
  styles[4].cost_power = 0.5;
  const std::size_t tried = without.contains(Technique::styles) ? 1
                            : problem.op_count() <= 3'000       ? styles.size()
                            : problem.op_count() <= 30'000      ? 3
                                                                : 1;
  for (std::size_t i = 0; i < tried; ++i) {
    if (best.schedule && best.seconds <= enough) break;
    if (auto schedule = simulation.run(arena_limit, styles[i], bound, most_seconds())) {
      best.offer(problem, std::move(*schedule), arena_limit, least_seconds);
    }
  }
  // What fails with ops in order may work depth first, and with the farthest next use going first.
  for (int last = 0; last < 2 && !best.schedule && !best.too_cheap; ++last) {
    SimulationStyle style;
    style.depth_first = true;
    style.cost_power = last == 0 ? 1 : 0;
    if (auto schedule = simulation.run(arena_limit, style, bound, most_seconds())) {
      best.offer(problem, std::move(*schedule), arena_limit, least_seconds);
    }
  }
  return best.schedule ? std::move(best.schedule) : std::move(best.too_cheap);
}

}  // namespace plimsoll::planner
