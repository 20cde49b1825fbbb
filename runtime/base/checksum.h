// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace plimsoll {

// A 64-bit checksum of a sequence of pieces, each but the last a multiple of 64 bytes long. Every
// step of a lane is a bijection of its state, so a change within one aligned 8-byte word is always
// found; other changes go unseen once in 2^64. Not for adversaries.
class Checksum {
 public:
  void add(std::span<const std::byte> piece) {
    const std::byte* data = piece.data();
    std::size_t left = piece.size();
    for (; left >= kStride; left -= kStride, data += kStride) step(data);
    if (left > 0) {
      std::array<std::byte, kStride> last{};
      std::memcpy(last.data(), data, left);
      step(last.data());
    }
    bytes_ += piece.size();
  }
  std::uint64_t value() const {
    std::uint64_t result = bytes_;
    for (const std::uint64_t lane : lanes_) result = mix(result, lane);
    return result;
  }

 private:
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kStride = 8 * kLanes;
  static std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
    return std::rotl(state ^ word, 29) * 0x9e3779b97f4a7c15u;
  }
  void step(const std::byte* data) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      std::uint64_t word;
      std::memcpy(&word, data + 8 * i, 8);
      lanes_[i] = mix(lanes_[i], word);
    }
  }

  std::array<std::uint64_t, kLanes> lanes_{1, 2, 3, 4, 5, 6, 7, 8};
  std::uint64_t bytes_ = 0;
};

}  // namespace plimsoll
