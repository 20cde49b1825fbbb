// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "runtime/base/index.h"
#include "runtime/memory/spill/file_io.h"

namespace plimsoll::memory {

// Fault injection for tests: what a disk and its file system may do. Thread-safe.
class FileFaults {
 public:
  enum class Kind : std::uint8_t {
    write,          // fails (EIO)
    read,           // fails, one that merges too
    full_write,     // fails (ENOSPC)
    full_disk,      // a reservation of room fails (ENOSPC)
    short_write,    // moves half of its bytes
    short_read,     // likewise
    flipped_write,  // writes with one bit flipped
    flipped_bit,    // a read brings a flipped bit in every 64 bytes
    flipped_merge,  // likewise one that merges
    slow_write,     // ends late, after those that started later
    slow_read,      // likewise
  };
  static constexpr std::size_t kKinds = 11;

  // The n-th from now (1 = next) of what `kind` concerns; 0 turns it off.
  void inject(Kind kind, std::int64_t n) { in(kind).store(n); }
  // Counts one such; whether it is the one.
  bool is_due(Kind kind) {
    return in(kind).load(std::memory_order_relaxed) > 0 && in(kind).fetch_sub(1) == 1;
  }

 private:
  std::atomic<std::int64_t>& in(Kind kind) { return in_[at(kind)]; }
  std::array<std::atomic<std::int64_t>, kKinds> in_ = {};
};

// `io` with the faults of `faults`, which outlives it. Short requests keep to multiples of
// `alignment`.
std::unique_ptr<FileIo> with_faults(std::unique_ptr<FileIo> io, FileFaults& faults,
                                    std::int64_t alignment);

}  // namespace plimsoll::memory
