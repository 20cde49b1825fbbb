// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll::kernels {

// The f32 of an f16's bits, exactly; NaNs keep their payload and stay quiet or signalling. Selects
// instead of branches, so that loops vectorize.
[[gnu::always_inline]] inline float from_half(std::uint16_t bits16) {
  const std::uint32_t sign = std::uint32_t{bits16 & 0x8000u} << 16;
  const std::uint32_t magnitude = bits16 & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u;
  const std::uint32_t special = (magnitude << 13) | 0x7f800000u;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  std::uint32_t bits = magnitude < 0x400u ? subnormal : normal;
  bits = magnitude >= 0x7c00u ? special : bits;
  return std::bit_cast<float>(sign | bits);
}

}  // namespace plimsoll::kernels
