// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/complete_options.h"

#include <algorithm>

#include "runtime/planner/residency.h"

namespace plimsoll::executor {

planner::Tier describe(memory::Tier& tier) {
  planner::Tier described;
  described.bytes = tier.statistics().limit_bytes;
  // One that can't be measured stays usable: at the speed of the built-in table.
  if (const auto speed = tier.speed(); speed.ok()) {
    described.out_bytes_per_second = speed->out_bytes_per_second;
    described.in_bytes_per_second = speed->in_bytes_per_second;
    described.latency_seconds = speed->latency_seconds;
    described.compute_share = speed->compute_share;
  }
  return described;
}

planner::PlanOptions complete_options(const planner::PlanOptions& options, const Program& program,
                                      const memory::Budget& budget) {
  planner::PlanOptions complete = complete_places(options, program, budget);
  complete.limit_bytes = std::min(options.limit_bytes, budget.limit());
  return complete;
}

planner::PlanOptions complete_places(const planner::PlanOptions& options, const Program& program,
                                     const memory::Budget& budget) {
  planner::PlanOptions complete = options;
  if (complete.parameters.empty()) {
    complete.parameters = planner::default_residency(program.module());
  }
  const memory::Tiers& tiers = budget.tiers();
  for (const MemorySpace tier : kTiers) {
    if (complete[tier].bytes == 0 && tiers[tier] != nullptr) {
      complete[tier] = describe(*tiers[tier]);
    }
  }
  return complete;
}

}  // namespace plimsoll::executor
