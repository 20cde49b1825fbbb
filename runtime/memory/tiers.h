// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/memory/host_tier.h"
#include "runtime/memory/spill_file.h"

namespace plimsoll::memory {

// The places beside a device's memory; null where there is none. Copies share them.
struct Tiers {
  std::shared_ptr<HostTier> host;
  std::shared_ptr<SpillFile> disk;
};

// Those that the environment names (PLIMSOLL_HOST_LIMIT, PLIMSOLL_SPILL_DIR, PLIMSOLL_SPILL_LIMIT).
Result<Tiers> tiers_from_environment(const std::shared_ptr<device::Device>& device);

// The speed of the link between `device` and host memory, and that of a spill file in `folder`.
Result<LinkSpeed> measure_host_link(const std::shared_ptr<device::Device>& device);
Result<LinkSpeed> measure_spill(const std::shared_ptr<device::Device>& device,
                                const std::string& folder);

}  // namespace plimsoll::memory
