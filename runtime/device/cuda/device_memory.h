// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/cuda/context.h"

namespace plimsoll::device::cuda {

// Where the blocks of device memory begin: at multiples of so many bytes.
inline constexpr std::int64_t kBlockAlignment = 256;

// Gives out the memory of one GPU. Thread-safe. All blocks must have come back when it goes.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // At least `bytes`, zero included. RESOURCE_EXHAUSTED when the GPU has no more.
  virtual Result<void*> allocate(std::int64_t bytes) = 0;
  // Nothing may work on the block any more.
  virtual void deallocate(void* pointer, std::int64_t bytes) = 0;
  // Gives the driver back what is in no block.
  virtual void release_kept() {}
  // What the driver has given, blocks and what is kept for further ones.
  virtual std::int64_t held_bytes() const = 0;
  // The part of it that is in no block.
  virtual std::int64_t kept_bytes() const = 0;
};

// By the driver's virtual-memory calls where the GPU has them, else block by block.
Result<std::unique_ptr<DeviceMemory>> make_device_memory(std::shared_ptr<const Context> context);

// One range of addresses, far longer than the memory, is reserved once; physical memory is mapped
// into it in granules as blocks need it. What blocks have given back stays mapped for further ones;
// where no free stretch of it is long enough, its granules move to other addresses, so that memory
// is never short because it lies in pieces, and no more is mapped than what blocks took at most,
// but for the ends of granules.
class MappedMemory final : public DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> create(std::shared_ptr<const Context> context);
  ~MappedMemory() override;
  Result<void*> allocate(std::int64_t bytes) override;
  void deallocate(void* pointer, std::int64_t bytes) override;
  void release_kept() override;
  std::int64_t held_bytes() const override;
  std::int64_t kept_bytes() const override;

 private:
  using Free = std::map<std::int64_t, std::int64_t>;  // begin and end of free ranges, in bytes

  explicit MappedMemory(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  Status open();
  std::int64_t granules_of(std::int64_t bytes) const { return (bytes + granule_ - 1) / granule_; }
  // Granules of addresses of [begin, end) that nothing is mapped at.
  std::int64_t missing(std::int64_t begin, std::int64_t end) const;
  Free::iterator find_room(std::int64_t bytes);
  Status map_range(std::int64_t begin, std::int64_t end);
  // To what is mapped at granules first to last - 1.
  Status give_access(std::int64_t first, std::int64_t last);
  Status gather(std::int64_t count, std::int64_t begin, std::int64_t end);
  Status unmap(std::int64_t granule);  // which becomes spare

  const std::shared_ptr<const Context> context_;
  mutable std::mutex mutex_;
  Address base_ = 0;
  std::int64_t reserved_bytes_ = 0, granule_ = 0, used_bytes_ = 0, held_granules_ = 0;
  Free free_;
  std::vector<MemoryHandle> mapped_;  // per granule of addresses; 0: nothing is
  std::vector<MemoryHandle> spare_;   // physical memory that is mapped nowhere
};

// By one call of the driver per block.
class PlainMemory final : public DeviceMemory {
 public:
  explicit PlainMemory(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  Result<void*> allocate(std::int64_t bytes) override;
  void deallocate(void* pointer, std::int64_t bytes) override;
  std::int64_t held_bytes() const override;
  std::int64_t kept_bytes() const override { return 0; }

 private:
  const std::shared_ptr<const Context> context_;
  mutable std::mutex mutex_;
  std::int64_t held_bytes_ = 0;
};

}  // namespace plimsoll::device::cuda
