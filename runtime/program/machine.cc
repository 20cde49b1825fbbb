// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/machine.h"

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
    described.synchronous_out_bytes_per_second = speed->synchronous_out_bytes_per_second;
    described.synchronous_in_bytes_per_second = speed->synchronous_in_bytes_per_second;
  }
  return described;
}

planner::Machine machine_of(const memory::Tiers& tiers) {
  planner::Machine machine;
  for (const MemorySpace tier : kTiers) {
    if (tiers[tier] != nullptr) machine[tier] = describe(*tiers[tier]);
  }
  return machine;
}

}  // namespace plimsoll::executor
