// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/device_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "runtime/base/index.h"

namespace plimsoll::device::cuda {
namespace {

// Of one granule: what a page of the GPU's memory map covers. Smaller ones would only make more
// calls.
constexpr std::int64_t kLeastGranule = std::int64_t{2} << 20;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

std::int64_t block_bytes(std::int64_t bytes) {
  return rounded_up(std::max<std::int64_t>(bytes, 1), kBlockAlignment);
}

void* pointer(Address address) { return reinterpret_cast<void*>(address); }

// With what there is, for whoever wonders where the memory has gone.
Status shortage(const Context& context, std::int64_t bytes, const Status& status) {
  const auto free = context.free_bytes();
  return status.with_context(
      fmt::format("allocating {} bytes of device memory ({} are free; lower the memory limit, or "
                  "end what else uses this GPU)",
                  bytes, free.ok() ? *free : 0));
}

}  // namespace

Result<std::unique_ptr<DeviceMemory>> make_device_memory(std::shared_ptr<const Context> context) {
  if (context->facts().maps_memory) return MappedMemory::create(std::move(context));
  return std::unique_ptr<DeviceMemory>(std::make_unique<PlainMemory>(std::move(context)));
}

Result<std::unique_ptr<DeviceMemory>> MappedMemory::create(std::shared_ptr<const Context> context) {
  std::unique_ptr<MappedMemory> made(new MappedMemory(std::move(context)));
  PLIMSOLL_RETURN_IF_ERROR(made->open());
  return std::unique_ptr<DeviceMemory>(std::move(made));
}

Status MappedMemory::open() {
  MemoryProperties properties;
  properties.location.id = context_->facts().ordinal;
  std::size_t least = 0;
  PLIMSOLL_RETURN_IF_ERROR(
      context_->call(&Driver::mem_get_granularity, &least, &properties, kGranularityMinimum));
  granule_ = rounded_up(kLeastGranule, static_cast<std::int64_t>(least));
  // Addresses cost nothing: the more there are, the less often blocks have to be found a place
  // between others. The driver may have less to give.
  constexpr std::int64_t kMostTimes = 8;
  const std::int64_t memory = rounded_up(context_->bytes_at_start(), granule_);
  Status status;
  for (std::int64_t times = kMostTimes; times > 0; times /= 2) {
    reserved_bytes_ = times * memory;
    status = context_->call(&Driver::mem_address_reserve, &base_,
                            static_cast<std::size_t>(reserved_bytes_),
                            static_cast<std::size_t>(granule_), Address{0}, 0ULL);
    if (status.ok()) break;
  }
  if (!status.ok()) return status.with_context("reserving addresses");
  mapped_.resize(at(reserved_bytes_ / granule_), 0);
  free_[0] = reserved_bytes_;
  return ok_status();
}

MappedMemory::~MappedMemory() {
  if (reserved_bytes_ == 0) return;
  for (std::size_t i = 0; i < mapped_.size(); ++i) {
    if (mapped_[i] != 0) (void)unmap(static_cast<std::int64_t>(i));
  }
  for (const MemoryHandle handle : spare_) (void)context_->call(&Driver::mem_release, handle);
  (void)context_->call(&Driver::mem_address_free, base_, static_cast<std::size_t>(reserved_bytes_));
}

std::int64_t MappedMemory::missing(std::int64_t begin, std::int64_t end) const {
  const auto first = mapped_.begin() + begin / granule_;
  const auto last = mapped_.begin() + granules_of(end);
  return std::count(first, last, MemoryHandle{0});
}

// Where the fewest granules are missing, and of those places the smallest: blocks of the same size
// that come and go find what the last one left.
MappedMemory::Free::iterator MappedMemory::find_room(std::int64_t bytes) {
  auto best = free_.end();
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max(), smallest = fewest;
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const std::int64_t size = range->second - range->first;
    if (size < bytes) continue;
    const std::int64_t lack = missing(range->first, range->first + bytes);
    if (std::pair(lack, size) >= std::pair(fewest, smallest)) continue;
    best = range;
    fewest = lack;
    smallest = size;
  }
  return best;
}

Status MappedMemory::unmap(std::int64_t granule) {
  PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::mem_unmap,
                                          base_ + static_cast<Address>(granule * granule_),
                                          static_cast<std::size_t>(granule_)));
  spare_.push_back(std::exchange(mapped_[at(granule)], 0));
  return ok_status();
}

// Makes `count` granules spare: those that lie in free ranges, outside of [begin, end), from the
// highest addresses on; then new ones.
Status MappedMemory::gather(std::int64_t count, std::int64_t begin, std::int64_t end) {
  const auto lack = [&] { return count - static_cast<std::int64_t>(spare_.size()); };
  for (auto range = free_.rbegin(); range != free_.rend() && lack() > 0; ++range) {
    const std::int64_t first = granules_of(range->first), last = range->second / granule_;
    for (std::int64_t granule = last - 1; granule >= first && lack() > 0; --granule) {
      const bool is_wanted = (granule + 1) * granule_ > begin && granule * granule_ < end;
      if (mapped_[at(granule)] != 0 && !is_wanted) PLIMSOLL_RETURN_IF_ERROR(unmap(granule));
    }
  }
  if (lack() <= 0) return ok_status();
  MemoryProperties properties;
  properties.location.id = context_->facts().ordinal;
  const auto taking = context_->taking_memory();
  while (lack() > 0) {
    MemoryHandle made = 0;
    PLIMSOLL_RETURN_IF_ERROR(context_->call(&Driver::mem_create, &made,
                                            static_cast<std::size_t>(granule_), &properties, 0ULL));
    spare_.push_back(made);
    ++held_granules_;
  }
  return ok_status();
}

// What is mapped stays so where the rest fails: it is free memory like any other. Access is given
// to all granules side by side in one call.
Status MappedMemory::map_range(std::int64_t begin, std::int64_t end) {
  const std::int64_t count = missing(begin, end);
  if (count == 0) return ok_status();
  PLIMSOLL_RETURN_IF_ERROR(gather(count, begin, end));
  const std::int64_t last = granules_of(end);
  for (std::int64_t first = begin / granule_; first < last;) {
    if (mapped_[at(first)] != 0) {
      ++first;
      continue;
    }
    std::int64_t next = first;
    Status status;
    for (; next < last && mapped_[at(next)] == 0 && status.ok(); ++next) {
      status =
          context_->call(&Driver::mem_map, base_ + static_cast<Address>(next * granule_),
                         static_cast<std::size_t>(granule_), std::size_t{0}, spare_.back(), 0ULL);
      if (!status.ok()) break;
      mapped_[at(next)] = spare_.back();
      spare_.pop_back();
    }
    if (next > first) PLIMSOLL_RETURN_IF_ERROR(give_access(first, next));
    PLIMSOLL_RETURN_IF_ERROR(status);
    first = next;
  }
  return ok_status();
}

// Those that can't be had are unmapped.
Status MappedMemory::give_access(std::int64_t first, std::int64_t last) {
  MemoryAccess access;
  access.location.id = context_->facts().ordinal;
  const Status status =
      context_->call(&Driver::mem_set_access, base_ + static_cast<Address>(first * granule_),
                     static_cast<std::size_t>((last - first) * granule_), &access, std::size_t{1});
  if (status.ok()) return status;
  for (std::int64_t granule = first; granule < last; ++granule) (void)unmap(granule);
  return status;
}

Result<void*> MappedMemory::allocate(std::int64_t bytes) {
  const std::int64_t size = block_bytes(bytes);
  const std::lock_guard lock(mutex_);
  const auto room = find_room(size);
  if (room == free_.end()) {
    return Status(StatusCode::resource_exhausted,
                  fmt::format("{}: allocating {} bytes of device memory: {} were free when the "
                              "process began to use it (lower the memory limit)",
                              context_->name(), bytes, context_->bytes_at_start()));
  }
  const auto [begin, end] = *room;
  const Status mapped = map_range(begin, begin + size);
  if (!mapped.ok()) return shortage(*context_, bytes, mapped);
  free_.erase(room);
  if (begin + size < end) free_[begin + size] = end;
  used_bytes_ += size;
  return pointer(base_ + static_cast<Address>(begin));
}

void MappedMemory::deallocate(void* pointer, std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto begin = static_cast<std::int64_t>(reinterpret_cast<Address>(pointer) - base_);
  std::int64_t end = begin + block_bytes(bytes);
  used_bytes_ -= end - begin;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->second == begin) begin = std::prev(next)->first;
  free_[begin] = end;
}

// A granule that a block begins or ends in stays.
void MappedMemory::release_kept() {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, end] : free_) {
    for (std::int64_t granule = granules_of(begin); granule < end / granule_; ++granule) {
      if (mapped_[at(granule)] != 0 && !unmap(granule).ok()) return;
    }
  }
  for (; !spare_.empty(); spare_.pop_back()) {
    (void)context_->call(&Driver::mem_release, spare_.back());
    --held_granules_;
  }
}

std::int64_t MappedMemory::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_granules_ * granule_;
}

std::int64_t MappedMemory::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_granules_ * granule_ - used_bytes_;
}

Result<void*> PlainMemory::allocate(std::int64_t bytes) {
  const std::int64_t size = block_bytes(bytes);
  Address address = 0;
  Status status;
  {
    const auto taking = context_->taking_memory();
    status = context_->call(&Driver::mem_alloc, &address, static_cast<std::size_t>(size));
  }
  if (!status.ok()) return shortage(*context_, bytes, status);
  const std::lock_guard lock(mutex_);
  held_bytes_ += size;
  return pointer(address);
}

void PlainMemory::deallocate(void* pointer, std::int64_t bytes) {
  (void)context_->call(&Driver::mem_free, reinterpret_cast<Address>(pointer));
  const std::lock_guard lock(mutex_);
  held_bytes_ -= block_bytes(bytes);
}

std::int64_t PlainMemory::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

}  // namespace plimsoll::device::cuda
