// SPDX-License-Identifier: Apache-2.0
#pragma once

#define XXH_STATIC_LINKING_ONLY  // the state as a member
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace plimsoll {

// The 64-bit checksum (XXH3) of a sequence of bytes, however it is cut into pieces. A change goes
// unseen once in 2^64. Not for adversaries. The same on every machine.
class Checksum {
 public:
  Checksum() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> piece) {
    XXH3_64bits_update(&state_, piece.data(), piece.size());
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace plimsoll
