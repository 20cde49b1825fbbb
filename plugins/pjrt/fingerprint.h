// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::pjrt {

// Of bytes, the same in every process (FNV-1a, 64 bits).
constexpr std::uint64_t fingerprint(std::string_view bytes,
                                    std::uint64_t seed = 14695981039346656037ULL) {
  std::uint64_t hash = seed;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 1099511628211ULL;
  }
  return hash;
}

}  // namespace plimsoll::pjrt
