// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/memory_space.h"
#include "runtime/base/status.h"
#include "runtime/memory/spill/spill_file.h"
#include "runtime/memory/tiers/host_tier.h"

namespace plimsoll::memory {

// The places beside a device's memory; null where there is none. Copies share them.
using Tiers = PerTier<std::shared_ptr<Tier>>;

// Which there should be.
struct TierOptions {
  std::int64_t host_bytes = 0;   // 0: none
  std::string spill_folder;      // empty: none
  std::int64_t spill_bytes = 0;  // 0: what the folder's file system has free
};
// PLIMSOLL_HOST_LIMIT, PLIMSOLL_SPILL_DIR, PLIMSOLL_SPILL_LIMIT.
Result<TierOptions> tier_options_from_environment();
// INVALID_ARGUMENT for a spill file that is limited but has no folder, NOT_FOUND for a folder that
// is not there.
Result<Tiers> make_tiers(const TierOptions& options, const std::shared_ptr<device::Device>& device);

// The speed of the link between `device` and host memory, and that of a spill file in `folder`.
Result<LinkSpeed> measure_host_link(const std::shared_ptr<device::Device>& device);
Result<LinkSpeed> measure_spill(const std::shared_ptr<device::Device>& device,
                                const std::string& folder);

}  // namespace plimsoll::memory
