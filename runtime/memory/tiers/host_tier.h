// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/memory/tiers/tier.h"

namespace plimsoll::memory {

// Host memory, of a kind that the device's transfers reach at full speed. Where the device is the
// host itself, it stands in for the link of a device with memory of its own.
class HostTier final : public Tier {
 public:
  static std::shared_ptr<HostTier> create(std::shared_ptr<device::Device> device,
                                          std::int64_t limit_bytes);
  ~HostTier() override;
  Result<LinkSpeed> measure() override;

 protected:
  Result<std::unique_ptr<TierBlock>> allocate_block(std::int64_t bytes) override;

 private:
  class Block;
  HostTier(std::shared_ptr<device::Device> device, std::int64_t limit_bytes);
  void drop_kept();

  // The block that came back last, for the next run of the same plan: its pages are mapped. Used
  // and kept bytes together stay under the limit.
  void* kept_ = nullptr;
  std::int64_t kept_bytes_ = 0;
};

}  // namespace plimsoll::memory
