// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/memory/tier.h"

namespace plimsoll::memory {

// A file on disk that no name leads to: it is gone with the process, however that ends. Room is
// taken from the file system before it is given out, and each range that is stored has a checksum
// that its load is held against.
// Errors: RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE for a failed read or write, DATA_LOSS for
// bytes that came back changed.
class SpillFile final : public Tier {
 public:
  // Makes the file in `folder`. A `limit_bytes` of 0 stands for what is free there.
  static Result<std::shared_ptr<SpillFile>> create(const std::string& folder,
                                                   std::int64_t limit_bytes,
                                                   std::shared_ptr<device::Device> device);
  ~SpillFile() override;
  // What the disk gives: written data is waited for, and read back from the disk.
  Result<LinkSpeed> measure() override;

  // Fault injection for tests: the n-th system call of its kind from now (1 = next) fails, moves
  // only part of its bytes, or (reads) brings them with one bit flipped; 0 turns it off.
  enum class Fault : std::uint8_t { write, read, short_write, short_read, flipped_bit };
  void inject(Fault fault, std::int64_t n);

 protected:
  Result<std::unique_ptr<TierBlock>> allocate_block(std::int64_t bytes) override;

 private:
  class Block;
  // `through`: to the disk and back, past the system's cache.
  SpillFile(int file, std::string folder, std::int64_t limit_bytes,
            std::shared_ptr<device::Device> device, bool through);
  static Result<std::shared_ptr<SpillFile>> open(const std::string& folder,
                                                 std::int64_t limit_bytes,
                                                 std::shared_ptr<device::Device> device,
                                                 bool through);
  Status write(std::int64_t offset, const std::byte* data, std::int64_t bytes);
  Status read(std::int64_t offset, std::byte* data, std::int64_t bytes);
  bool is_due(Fault fault);
  void release(std::int64_t offset, std::int64_t bytes);

  const int file_;
  const std::string folder_;
  const bool through_;
  // With the tier's mutex held.
  std::map<std::int64_t, std::int64_t> free_;  // offset -> bytes, below end_; no two touch
  std::int64_t end_ = 0;                       // of what is given out
  std::int64_t reserved_ = 0;                  // bytes of the file that the file system has granted
  static constexpr int kFaults = 5;
  std::atomic<std::int64_t> fault_in_[kFaults] = {};
};

}  // namespace plimsoll::memory
