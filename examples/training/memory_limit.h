// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll::examples {

// How much device memory a run may use: nothing said (the environment decides), a number of bytes,
// or a share of what the training step would use without a limit.
struct MemoryLimit {
  std::int64_t bytes = 0;  // 0: not given in bytes
  double peak_share = 0;   // 0: not given as a share

  // `512MiB`, `1.5GB`, `1000000`, or `50%peak`; empty says nothing. Throws plimsoll::Error.
  static MemoryLimit parse(const std::string& text);
};

}  // namespace plimsoll::examples
