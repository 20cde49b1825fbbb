// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "runtime/device/cuda/driver_types.h"

namespace plimsoll::device::cuda {

// The memory of the recording driver's GPU. Every address stands for a byte that is mapped
// elsewhere, where the host can use it; at the address itself it can't. Addresses are never given
// out twice. Not thread-safe.
class RecordedMemory {
 public:
  RecordedMemory(std::int64_t bytes, std::byte fill);
  ~RecordedMemory();
  RecordedMemory(const RecordedMemory&) = delete;
  RecordedMemory& operator=(const RecordedMemory&) = delete;

  // Each gives false, or 0, where the call is refused: for want of memory, or because it is wrong.
  Address allocate(std::int64_t bytes);
  bool free(Address address, std::int64_t* bytes);
  Address reserve(std::int64_t bytes);
  bool unreserve(Address address, std::int64_t bytes);
  MemoryHandle create(std::int64_t bytes);
  bool release(MemoryHandle handle);
  bool map(Address address, std::int64_t bytes, MemoryHandle handle);
  bool unmap(Address address, std::int64_t bytes);
  // Of mappings side by side, as a whole.
  bool allow(Address address, std::int64_t bytes);

  // Takes from what is free, for what is not given out as memory.
  bool take(std::int64_t bytes);
  void give_back(std::int64_t bytes) { free_bytes_ += bytes; }
  std::int64_t free_bytes() const { return free_bytes_; }

  bool is_address(const void* pointer) const;
  // Whether all of the range may be used.
  bool is_usable(Address address, std::int64_t bytes) const;
  // Whether it was a block's that has been given back.
  bool is_gone(Address address) const;
  std::byte* mapped(Address address) const;
  // "1 block, 2 granules"; empty: nothing.
  std::string leaks() const;

 private:
  struct Physical {
    std::int64_t offset = 0, bytes = 0;
    int maps = 0;
    bool is_released = false;
  };
  struct Mapping {
    std::int64_t bytes = 0;
    MemoryHandle handle = 0;
    bool is_allowed = false;
  };
  std::int64_t offset_of(Address address) const;
  std::int64_t take_addresses(std::int64_t bytes);
  void forget(std::int64_t offset, std::int64_t bytes);
  void end(MemoryHandle handle);

  const std::byte fill_;
  std::int64_t free_bytes_;
  std::byte* addresses_ = nullptr;  // nothing is mapped there
  std::byte* memory_ = nullptr;
  int file_ = -1;  // of physical memory
  std::int64_t next_address_, next_file_ = 0;
  MemoryHandle next_handle_ = 1;
  std::map<std::int64_t, std::int64_t> blocks_, gone_, reserved_;  // by offset, with bytes
  std::map<std::int64_t, Mapping> mappings_;                       // by offset
  std::map<MemoryHandle, Physical> physical_;
  std::multimap<std::int64_t, std::int64_t> file_free_;  // by bytes, with offset
};

}  // namespace plimsoll::device::cuda
