// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The registers of AMX, which hold matrices: eight tiles of 16 rows of 64 bytes.
namespace plimsoll::kernels {

inline constexpr std::int64_t kRowsOfTile = 16, kBytesOfTileRow = 64;

// Whether this machine multiplies tiles of bf16, or of bytes, and the system lets this process: it
// is asked once, for good, and refuses where a thread's alternate stack for signals is too small.
// Thread-safe.
bool has_bf16_tiles();
bool has_byte_tiles();

// While this lives the calling thread's tiles all have 16 rows of 64 bytes; afterwards it has none,
// and nothing of them is saved when threads change. Whoever else uses tiles on this thread sets
// them up again: the scope holds loops alone, no calls of libraries. Only where there are tiles.
class TileScope {
 public:
  explicit TileScope(bool uses_tiles) : uses_tiles_(uses_tiles) {
    if (uses_tiles_) begin();
  }
  ~TileScope() {
    if (uses_tiles_) end();
  }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  static void begin();
  static void end();

  bool uses_tiles_;
};

}  // namespace plimsoll::kernels
