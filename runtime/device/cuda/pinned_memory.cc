// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/pinned_memory.h"

#include <fmt/core.h>

#include <algorithm>

namespace plimsoll::device::cuda {
namespace {

constexpr std::int64_t kPage = 4096;

}  // namespace

PinnedMemory::~PinnedMemory() {
  while (!kept_.empty()) drop_oldest();
}

void PinnedMemory::drop_oldest() {
  const Block block = kept_.front();
  kept_.erase(kept_.begin());
  kept_bytes_ -= block.bytes;
  held_bytes_ -= block.bytes;
  (void)context_->call(&Driver::mem_free_host, block.data);
}

Result<void*> PinnedMemory::allocate(std::int64_t bytes) {
  const std::int64_t size = (std::max<std::int64_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  const std::lock_guard lock(mutex_);
  // The smallest that is long enough, and not so long that it would be wasted.
  auto best = kept_.end();
  for (auto block = kept_.begin(); block != kept_.end(); ++block) {
    const bool fits = block->bytes >= size && block->bytes - size <= size / 4;
    if (fits && (best == kept_.end() || block->bytes < best->bytes)) best = block;
  }
  if (best != kept_.end()) {
    const Block block = *best;
    kept_.erase(best);
    kept_bytes_ -= block.bytes;
    used_[block.data] = block.bytes;
    return block.data;
  }
  void* data = nullptr;
  const auto pin = [&] {
    return context_->call(&Driver::mem_host_alloc, &data, static_cast<std::size_t>(size),
                          kHostMemoryPortable);
  };
  Status status = pin();
  while (!status.ok() && !kept_.empty()) {
    drop_oldest();
    status = pin();
  }
  if (!status.ok()) {
    return status.with_context(
        fmt::format("pinning {} bytes of host memory ({} are pinned)", size, held_bytes_));
  }
  held_bytes_ += size;
  used_[data] = size;
  return data;
}

void PinnedMemory::deallocate(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(pointer);
  if (found == used_.end()) return;
  kept_.push_back({found->first, found->second});
  kept_bytes_ += found->second;
  used_.erase(found);
  while (kept_bytes_ > kMostKept) drop_oldest();
}

std::int64_t PinnedMemory::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

}  // namespace plimsoll::device::cuda
