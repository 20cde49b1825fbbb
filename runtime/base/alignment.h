// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll {

// Alignment of every device buffer and of every offset in a plan's arena.
inline constexpr std::int64_t kBufferAlignment = 64;

// Bytes as budgets count them: what a buffer of that many takes.
constexpr std::int64_t aligned_bytes(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace plimsoll
