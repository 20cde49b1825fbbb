// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/memory/tiers/tier.h"

namespace plimsoll::memory {

// A worked example of a further tier (docs/contributing.md): memory at the far end of a socket,
// where a thread stands in for another machine. What is stored goes there in frames, by way of
// host memory, and comes back the same way.
class RemoteTier final : public Tier {
 public:
  static Result<std::shared_ptr<RemoteTier>> create(std::shared_ptr<device::Device> device,
                                                    std::int64_t limit_bytes);
  ~RemoteTier() override;
  Result<LinkSpeed> measure() override;

 protected:
  Result<std::unique_ptr<TierBlock>> allocate_block(std::int64_t bytes) override;

 private:
  class Block;
  class Machine;
  RemoteTier(std::shared_ptr<device::Device> device, std::int64_t limit_bytes,
             std::unique_ptr<Machine> machine);

  const std::unique_ptr<Machine> machine_;
  std::uint64_t next_block_ = 0;
};

}  // namespace plimsoll::memory
