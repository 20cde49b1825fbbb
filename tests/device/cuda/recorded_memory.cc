// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recorded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace plimsoll::device::cuda {
namespace {

constexpr std::int64_t kRecordedPage = 4096;
constexpr std::int64_t kRecordedSpace = std::int64_t{1} << 42;
constexpr std::int64_t kMostFilledBytes = 1 << 16;

std::byte* map_nothing() {
  void* const at = mmap(nullptr, static_cast<std::size_t>(kRecordedSpace), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) std::abort();
  return static_cast<std::byte*>(at);
}

std::int64_t whole_pages(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 1) + kRecordedPage - 1) / kRecordedPage * kRecordedPage;
}

}  // namespace

RecordedMemory::RecordedMemory(std::int64_t bytes, std::byte fill)
    : fill_(fill),
      free_bytes_(bytes),
      addresses_(map_nothing()),
      memory_(map_nothing()),
      file_(memfd_create("recorded_memory", MFD_CLOEXEC)),
      // Not at the beginning, so that an address that is a little off stays recognizable.
      next_address_(kRecordedSpace / 8) {
  if (file_ < 0) std::abort();
}

RecordedMemory::~RecordedMemory() {
  munmap(addresses_, static_cast<std::size_t>(kRecordedSpace));
  munmap(memory_, static_cast<std::size_t>(kRecordedSpace));
  close(file_);
}

bool RecordedMemory::is_address(const void* pointer) const {
  const auto* const at = static_cast<const std::byte*>(pointer);
  return at >= addresses_ && at < addresses_ + kRecordedSpace;
}

std::int64_t RecordedMemory::offset_of(Address address) const {
  return reinterpret_cast<std::byte*>(address) - addresses_;
}

std::byte* RecordedMemory::mapped(Address address) const { return memory_ + offset_of(address); }

bool RecordedMemory::take(std::int64_t bytes) {
  if (bytes > free_bytes_) return false;
  free_bytes_ -= bytes;
  return true;
}

// A page that nobody gets lies behind each range.
std::int64_t RecordedMemory::take_addresses(std::int64_t bytes) {
  const std::int64_t taken = whole_pages(bytes) + kRecordedPage;
  if (taken > kRecordedSpace - next_address_) std::abort();
  return std::exchange(next_address_, next_address_ + taken);
}

void RecordedMemory::forget(std::int64_t offset, std::int64_t bytes) {
  void* const at = mmap(memory_ + offset, static_cast<std::size_t>(whole_pages(bytes)), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED) std::abort();
}

Address RecordedMemory::allocate(std::int64_t bytes) {
  if (bytes <= 0 || !take(bytes)) return 0;
  const std::int64_t offset = take_addresses(bytes);
  const auto size = static_cast<std::size_t>(whole_pages(bytes));
  if (mprotect(memory_ + offset, size, PROT_READ | PROT_WRITE) != 0) std::abort();
  std::memset(memory_ + offset, static_cast<int>(fill_),
              static_cast<std::size_t>(std::min(bytes, kMostFilledBytes)));
  blocks_[offset] = bytes;
  return reinterpret_cast<Address>(addresses_ + offset);
}

bool RecordedMemory::free(Address address, std::int64_t* bytes) {
  const auto found = blocks_.find(offset_of(address));
  if (found == blocks_.end()) return false;
  *bytes = found->second;
  forget(found->first, found->second);
  free_bytes_ += found->second;
  gone_.insert(*found);
  blocks_.erase(found);
  return true;
}

Address RecordedMemory::reserve(std::int64_t bytes) {
  constexpr std::int64_t kHuge = std::int64_t{2} << 20;
  if (bytes <= 0 || bytes % kRecordedPage != 0 || bytes > kRecordedSpace / 4) return 0;
  const auto misplaced = reinterpret_cast<Address>(addresses_ + next_address_) % kHuge;
  if (misplaced != 0) next_address_ += kHuge - static_cast<std::int64_t>(misplaced);
  const std::int64_t offset = take_addresses(bytes);
  reserved_[offset] = bytes;
  return reinterpret_cast<Address>(addresses_ + offset);
}

bool RecordedMemory::unreserve(Address address, std::int64_t bytes) {
  const std::int64_t offset = offset_of(address);
  const auto found = reserved_.find(offset);
  if (found == reserved_.end() || found->second != bytes) return false;
  const auto mapping = mappings_.lower_bound(offset);
  if (mapping != mappings_.end() && mapping->first < offset + bytes) return false;
  reserved_.erase(found);
  return true;
}

MemoryHandle RecordedMemory::create(std::int64_t bytes) {
  if (bytes <= 0 || bytes % kRecordedPage != 0 || !take(bytes)) return 0;
  Physical made{next_file_, bytes};
  if (const auto known = file_free_.find(bytes); known != file_free_.end()) {
    made.offset = known->second;
    file_free_.erase(known);
  } else {
    next_file_ += bytes;
    if (ftruncate(file_, next_file_) != 0) std::abort();
  }
  physical_[next_handle_] = made;
  return next_handle_++;
}

void RecordedMemory::end(MemoryHandle handle) {
  const auto found = physical_.find(handle);
  if (!found->second.is_released || found->second.maps > 0) return;
  free_bytes_ += found->second.bytes;
  file_free_.emplace(found->second.bytes, found->second.offset);
  physical_.erase(found);
}

bool RecordedMemory::release(MemoryHandle handle) {
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.is_released) return false;
  found->second.is_released = true;
  end(handle);
  return true;
}

bool RecordedMemory::map(Address address, std::int64_t bytes, MemoryHandle handle) {
  const std::int64_t offset = offset_of(address);
  const auto found = physical_.find(handle);
  if (found == physical_.end() || found->second.is_released || found->second.bytes != bytes) {
    return false;
  }
  const auto room = reserved_.upper_bound(offset);
  if (room == reserved_.begin()) return false;
  const auto [begin, size] = *std::prev(room);
  if (offset + bytes > begin + size) return false;
  const auto next = mappings_.lower_bound(offset);
  if (next != mappings_.end() && next->first < offset + bytes) return false;
  if (next != mappings_.begin() &&
      std::prev(next)->first + std::prev(next)->second.bytes > offset) {
    return false;
  }
  void* const at = mmap(memory_ + offset, static_cast<std::size_t>(bytes), PROT_NONE,
                        MAP_SHARED | MAP_FIXED, file_, found->second.offset);
  if (at == MAP_FAILED) std::abort();
  ++found->second.maps;
  mappings_[offset] = {bytes, handle, false};
  return true;
}

bool RecordedMemory::unmap(Address address, std::int64_t bytes) {
  const auto found = mappings_.find(offset_of(address));
  if (found == mappings_.end() || found->second.bytes != bytes) return false;
  forget(found->first, bytes);
  const MemoryHandle handle = found->second.handle;
  --physical_[handle].maps;
  mappings_.erase(found);
  end(handle);
  return true;
}

bool RecordedMemory::allow(Address address, std::int64_t bytes) {
  const std::int64_t begin = offset_of(address), end = begin + bytes;
  std::int64_t reached = begin;
  for (auto it = mappings_.find(begin); it != mappings_.end() && it->first == reached; ++it) {
    reached += it->second.bytes;
    if (reached >= end) break;
  }
  if (reached != end) return false;
  for (auto it = mappings_.find(begin); it != mappings_.end() && it->first < end; ++it) {
    std::byte* const at = memory_ + it->first;
    const auto size = static_cast<std::size_t>(it->second.bytes);
    if (mprotect(at, size, PROT_READ | PROT_WRITE) != 0) std::abort();
    // It has moved here from elsewhere, or is new: in no case is there anything to rely on.
    std::memset(at, static_cast<int>(fill_),
                std::min(size, static_cast<std::size_t>(kMostFilledBytes)));
    it->second.is_allowed = true;
  }
  return true;
}

bool RecordedMemory::is_usable(Address address, std::int64_t bytes) const {
  const std::int64_t offset = offset_of(address), end = offset + bytes;
  const auto block = blocks_.upper_bound(offset);
  if (block != blocks_.begin()) {
    const auto [begin, size] = *std::prev(block);
    if (offset < begin + size) return end <= begin + size;
  }
  std::int64_t reached = offset;
  auto mapping = mappings_.upper_bound(offset);
  if (mapping == mappings_.begin()) return false;
  for (--mapping; reached < end; ++mapping) {
    if (mapping == mappings_.end() || mapping->first > reached) return false;
    if (!mapping->second.is_allowed || mapping->first + mapping->second.bytes <= reached) {
      return false;
    }
    reached = mapping->first + mapping->second.bytes;
  }
  return true;
}

bool RecordedMemory::is_gone(Address address) const {
  const std::int64_t offset = offset_of(address);
  const auto block = gone_.upper_bound(offset);
  return block != gone_.begin() && offset < std::prev(block)->first + std::prev(block)->second;
}

std::string RecordedMemory::leaks() const {
  std::string found;
  const auto add = [&](std::size_t count, const char* what) {
    if (count > 0) found += (found.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(blocks_.size(), "blocks of memory");
  add(reserved_.size(), "ranges of addresses");
  add(mappings_.size(), "mappings");
  add(physical_.size(), "granules");
  return found;
}

}  // namespace plimsoll::device::cuda
