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
//
// Those to and from host memory are a stream's own, one for each direction, where `by_streams` says
// so: the run's stream waits for them by events, and the run's thread for nothing, so that the
// device goes on as soon as they have ended. Others are their engines', whose threads the run's
// thread waits for; synchronous ones the run's stream makes itself, and nobody waits for them.
class Transfers {
 public:
  Transfers(device::Device& device, device::Stream& stream, const memory::Tiers& tiers,
            const TierBlocks& blocks, bool by_streams)
      : device_(device), stream_(stream), tiers_(tiers), blocks_(blocks), by_streams_(by_streams) {}
  ~Transfers() { (void)wait_all(); }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Starts a transfer between `near` in device memory and `offset` of the tier's block, after what
  // the stream has been given so far. `key` names it until the wait; a synchronous one has none.
  Status start(const void* key, bool out, MemorySpace tier, std::int64_t offset, void* near,
               std::int64_t bytes, bool synchronous);
  // What the stream is given from here on comes after it; what came of it, where its engine moved
  // it. `seconds` and `started` (where not null) get its time on the engine and when that began;
  // both are of the engine's transfers alone.
  Status wait(const void* key, double* seconds,
              std::chrono::steady_clock::time_point* started = nullptr);
  // Blocks until all have ended: nothing touches their memory afterwards. What came of those that
  // were streams'.
  Status wait_all();

 private:
  struct Open {
    const void* key;
    memory::TransferEngine* engine;
    std::shared_ptr<memory::Transfer> transfer;  // null: a stream's
    std::shared_ptr<device::Event> ended{};      // of a stream's
  };
  Result<device::Stream*> stream_of(bool out);

  device::Device& device_;
  device::Stream& stream_;
  const memory::Tiers& tiers_;
  const TierBlocks& blocks_;
  const bool by_streams_;
  std::vector<Open> open_;
  std::unique_ptr<device::Stream> out_, in_;  // null: nothing has gone that way by a stream
  std::vector<std::shared_ptr<device::Event>> events_;  // that streams may still wait for
};

}  // namespace plimsoll::executor
