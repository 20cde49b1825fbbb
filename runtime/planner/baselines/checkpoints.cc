// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/baselines/checkpoints.h"

#include <limits>
#include <utility>

#include "runtime/planner/remat/eviction_simulation.h"
#include "runtime/planner/remat/improve.h"

namespace plimsoll::planner {

std::optional<Schedule> keep_checkpoints(const Problem& problem, IdVector<ValueId, char> keep,
                                         std::int64_t arena_limit, std::int64_t min_bytes) {
  EvictionSimulation simulation(problem, min_bytes);
  SimulationStyle style;
  style.keep = std::move(keep);
  style.cost_power = 0;
  auto schedule = simulation.run(arena_limit, style, most_executions(problem),
                                 std::numeric_limits<double>::infinity());
  if (!schedule) return std::nullopt;
  drop_unread(problem, *schedule);
  if (evaluate(problem, *schedule).arena_peak > arena_limit) return std::nullopt;
  return schedule;
}

}  // namespace plimsoll::planner
