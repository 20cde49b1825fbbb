// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll {

// Alignment of every device buffer and of every offset in a plan's arena.
inline constexpr std::int64_t kBufferAlignment = 64;

}  // namespace plimsoll
