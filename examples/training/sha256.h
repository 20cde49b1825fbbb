// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace plimsoll::examples {

// SHA-256 (FIPS 180-4) of bytes given piece by piece.
class Sha256 {
 public:
  void update(const void* data, std::size_t size);
  // The digest of everything so far, as 64 hexadecimal digits; the object is spent.
  std::string finish();

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                         0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  std::array<std::uint8_t, 64> pending_{};
  std::uint64_t total_ = 0;
};

}  // namespace plimsoll::examples
