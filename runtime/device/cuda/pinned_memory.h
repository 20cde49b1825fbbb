// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/cuda/context.h"

namespace plimsoll::device::cuda {

// Host memory that the GPU's copy engines reach without the processor's help. Pinning takes far
// longer than a copy, so blocks that come back are kept for the next ones of about their size, up
// to kMostKept bytes. Thread-safe. All blocks must have come back when it goes.
class PinnedMemory {
 public:
  static constexpr std::int64_t kMostKept = std::int64_t{256} << 20;

  explicit PinnedMemory(std::shared_ptr<const Context> context) : context_(std::move(context)) {}
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  // At least `bytes`, zero included, on a page of its own.
  Result<void*> allocate(std::int64_t bytes);
  void deallocate(void* pointer);
  std::int64_t held_bytes() const;

 private:
  struct Block {
    void* data;
    std::int64_t bytes;
  };
  void drop_oldest();

  const std::shared_ptr<const Context> context_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::int64_t> used_;  // with the bytes that each really has
  std::vector<Block> kept_;                       // newest last
  std::int64_t held_bytes_ = 0, kept_bytes_ = 0;
};

}  // namespace plimsoll::device::cuda
