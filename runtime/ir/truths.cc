// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/truths.h"

#include <algorithm>

namespace plimsoll::ir {

// In blocks whose loop has no exit, which compilers turn into vector code.
bool are_truths(std::span<const std::byte> bytes) {
  constexpr std::size_t kBlock = 4096;
  while (!bytes.empty()) {
    const auto block = bytes.first(std::min(bytes.size(), kBlock));
    std::byte any{};
    for (const std::byte b : block) any |= b;
    if (any > std::byte{1}) return false;
    bytes = bytes.subspan(block.size());
  }
  return true;
}

void make_truths(std::span<std::byte> bytes) {
  for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
}

}  // namespace plimsoll::ir
