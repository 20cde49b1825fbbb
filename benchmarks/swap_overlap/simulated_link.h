// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/memory/tiers/host_tier.h"

namespace plimsoll::benchmarks {

// Host memory at the end of a link of a given speed: a transfer is a copy, after which its engine
// sleeps until the link would have been done. The copy takes a processor, which a device's own
// engine would not; and where memory is slower than the link, the transfer is as slow as memory.
class SimulatedLink final : public memory::Tier {
 public:
  // Its speed is what is asked for, its compute_share what its copies take from the kernels here.
  static Result<std::shared_ptr<SimulatedLink>> create(std::shared_ptr<device::Device> device,
                                                       std::int64_t limit_bytes,
                                                       double bytes_per_second,
                                                       double latency_seconds);
  Result<memory::LinkSpeed> measure() override;

 protected:
  Result<std::unique_ptr<memory::TierBlock>> allocate_block(std::int64_t bytes) override;

 private:
  class Block;
  SimulatedLink(std::shared_ptr<device::Device> device, std::int64_t limit_bytes,
                memory::LinkSpeed asked);

  const memory::LinkSpeed asked_;
  const std::shared_ptr<memory::HostTier> memory_;
};

}  // namespace plimsoll::benchmarks
