// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/memory/tiers.h"
#include "runtime/planner/plan.h"

namespace plimsoll::executor {

// A run's block of each tier, empty where its plan needs none.
using TierBlocks = PerTier<std::unique_ptr<memory::TierBlock>>;

// Takes the blocks of `plan` from the tiers. FAILED_PRECONDITION when there is no such tier,
// RESOURCE_EXHAUSTED when it has no room.
Result<TierBlocks> take_blocks(const memory::Tiers& tiers, const planner::Plan& plan);

// The transfers of one run that are under way. Used by the run's thread.
class Transfers {
 public:
  Transfers(device::Device& device, device::Stream& stream, const memory::Tiers& tiers,
            const TierBlocks& blocks)
      : device_(device), stream_(stream), tiers_(tiers), blocks_(blocks) {}
  ~Transfers() { wait_all(); }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Starts a transfer between `near` in device memory and `offset` of the tier's block, after what
  // the stream has been given so far. `key` names it until the wait.
  Status start(const void* key, bool out, MemorySpace tier, std::int64_t offset, void* near,
               std::int64_t bytes);
  // Blocks until it has ended; what came of it. `seconds` and `started` (where not null) get its
  // time on the engine and when that began.
  Status wait(const void* key, double* seconds,
              std::chrono::steady_clock::time_point* started = nullptr);
  // For runs that end early: nothing touches their memory afterwards.
  void wait_all();

 private:
  struct Open {
    const void* key;
    memory::TransferEngine* engine;
    std::shared_ptr<memory::Transfer> transfer;
  };
  device::Device& device_;
  device::Stream& stream_;
  const memory::Tiers& tiers_;
  const TierBlocks& blocks_;
  std::vector<Open> open_;
};

}  // namespace plimsoll::executor
