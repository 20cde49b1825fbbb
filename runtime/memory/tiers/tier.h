// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/memory/tiers/transfer_engine.h"

namespace plimsoll::memory {

// How fast bytes go over the link between device memory and a tier.
struct LinkSpeed {
  double out_bytes_per_second = 0, in_bytes_per_second = 0;
  double latency_seconds = 0;  // per transfer
  double compute_share = 0;    // what compute steps lose to it, per second of transfer
  // Of copies that the kernels' own threads make meanwhile; 0: there are none such.
  double synchronous_out_bytes_per_second = 0, synchronous_in_bytes_per_second = 0;
};

struct TierStatistics {
  std::int64_t limit_bytes = 0;
  std::int64_t used_bytes = 0;
  std::int64_t reserved_bytes = 0;  // for blocks to come (Tier::reserve); not in used_bytes
  std::int64_t peak_bytes = 0;      // high-water mark since creation or reset_peak
  std::int64_t allocations = 0;
  // Host memory beside used_bytes that transfers pass through; no limit counts it.
  std::int64_t staging_bytes = 0;
  TransferStatistics out, in;
};

// Bytes of a tier, given back on destruction; whoever holds one waits for its transfers first.
// `store` and `load` run on the threads of the tier's engines, so that one of each may be under way
// at a time. Offsets are multiples of device::kBufferAlignment. Blocks of host memory may only
// enqueue the copy on `stream`, whose work it is.
class TierBlock {
 public:
  virtual ~TierBlock() = default;
  // Copies `bytes` of device memory to `offset`, respectively back. What a load gives is what the
  // last store to the same range was given, or it fails. `stream` is the engine's, or of whoever
  // issues the transfer (TransferEngine::issue).
  virtual Status store(std::int64_t offset, const void* from, std::int64_t bytes,
                       device::Stream& stream) = 0;
  virtual Status load(std::int64_t offset, void* to, std::int64_t bytes,
                      device::Stream& stream) = 0;
  // Where its bytes lie in the host's memory; null: nowhere.
  virtual std::byte* data() { return nullptr; }
};

class Tier;

// Bytes under a tier's limit that nobody else gets: blocks are taken of it, what is left becomes
// free when it goes. Movable; for one thread at a time.
class TierReservation {
 public:
  TierReservation() = default;
  TierReservation(TierReservation&& other) noexcept { *this = std::move(other); }
  TierReservation& operator=(TierReservation&& other) noexcept;
  ~TierReservation() { close(); }
  void close();

 private:
  friend class Tier;
  std::shared_ptr<Tier> tier_;
  std::int64_t bytes_ = 0;
};

// A place for bytes beside the device's memory: a byte limit, and a link with an engine for each
// direction. Thread-safe. A further tier implements `allocate_block` and `measure`.
class Tier : public std::enable_shared_from_this<Tier> {
 public:
  virtual ~Tier() = default;
  // RESOURCE_EXHAUSTED (with numbers) past the limit, or when there is no room whatever the limit.
  // Bytes are rounded up to device::kBufferAlignment. The block keeps the tier alive.
  Result<std::unique_ptr<TierBlock>> allocate(std::int64_t bytes, std::string_view what);
  // Bytes for blocks to come; refuses as `allocate` does.
  Result<TierReservation> reserve(std::int64_t bytes, std::string_view what);
  // A block of these bytes. INTERNAL when it is more than is left; RESOURCE_EXHAUSTED when there is
  // none whatever the limit.
  Result<std::unique_ptr<TierBlock>> allocate(std::int64_t bytes, std::string_view what,
                                              TierReservation& from);

  std::string_view name() const { return name_; }
  TransferEngine& out() { return out_; }
  TransferEngine& in() { return in_; }

  TierStatistics statistics() const;
  void reset_peak();
  // What transfers pass through adds itself here, for the statistics.
  std::atomic<std::int64_t>& staging_bytes() { return staging_bytes_; }
  const std::shared_ptr<device::Device>& device() const { return device_; }

  // Measured when first asked for, unless it was set before.
  Result<LinkSpeed> speed();
  void set_speed(const LinkSpeed& speed);
  // Transfers through the engines, uncached; takes some tens of milliseconds.
  virtual Result<LinkSpeed> measure() = 0;

  // Fault injection for tests: the n-th allocation or reservation from now (1 = next) fails; 0
  // turns it off. Gives what was left of the n before: 0 where that failure has come.
  std::int64_t fail_allocation(std::int64_t n);

 protected:
  Tier(std::string name, std::int64_t limit_bytes, std::shared_ptr<device::Device> device);
  // Called with the tier's mutex held, for at most what the limit leaves. The block's destructor
  // calls give_back.
  virtual Result<std::unique_ptr<TierBlock>> allocate_block(std::int64_t bytes) = 0;
  void give_back(std::int64_t bytes);  // with the mutex held
  std::mutex& mutex() const { return mutex_; }
  std::int64_t limit_bytes() const { return statistics_.limit_bytes; }
  std::int64_t used_bytes() const { return statistics_.used_bytes; }  // with the mutex held

 private:
  friend class TierReservation;
  // With the mutex held: whether so much may be taken.
  Status check_available(std::int64_t bytes, std::string_view what);
  Result<std::unique_ptr<TierBlock>> take(std::int64_t bytes, std::string_view what);

  const std::string name_;
  const std::shared_ptr<device::Device> device_;
  mutable std::mutex mutex_;
  TierStatistics statistics_;
  std::int64_t fail_in_ = 0;
  std::atomic<std::int64_t> staging_bytes_ = 0;
  std::mutex speed_mutex_;
  LinkSpeed speed_;
  TransferEngine out_, in_;
};

// Times transfers of `tier` through its engines: `bytes` at a time for the rates, one alignment
// unit for the latency.
Result<LinkSpeed> time_transfers(Tier& tier, device::Device& device, std::int64_t bytes);

}  // namespace plimsoll::memory
