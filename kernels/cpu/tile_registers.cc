// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tile_registers.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLIMSOLL_TILES __attribute__((target("amx-tile")))
#endif

namespace plimsoll::kernels {

#if defined(__x86_64__) && defined(__linux__)
namespace {

// What the system saves of a thread, as XGETBV says it.
std::uint64_t saved_states() {
  std::uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | static_cast<std::uint64_t>(high) << 32;
}

// Bits of CPUID's leaf 7 in EDX.
constexpr std::uint32_t kBf16Tiles = 1U << 22, kTiles = 1U << 24, kByteTiles = 1U << 25;

// Of these bits those that the machine has and the process may use.
std::uint32_t usable_tiles() {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return 0;
  constexpr std::uint64_t kTileStates = std::uint64_t{3} << 17;
  if ((saved_states() & kTileStates) != kTileStates) return 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0) return 0;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return 0;
  return d;
}

std::uint32_t tiles() {
  static const std::uint32_t usable = usable_tiles();
  return usable;
}

// As LDTILECFG reads it.
struct alignas(64) Palette {
  std::uint8_t id = 1, start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(Palette) == 64);

constexpr Palette whole_tiles() {
  Palette palette;
  for (int i = 0; i < 8; ++i) {
    palette.row_bytes[i] = static_cast<std::uint16_t>(kBytesOfTileRow);
    palette.rows[i] = static_cast<std::uint8_t>(kRowsOfTile);
  }
  return palette;
}
constexpr Palette kWholeTiles = whole_tiles();

}  // namespace

bool has_bf16_tiles() { return (tiles() & kBf16Tiles) != 0; }
bool has_byte_tiles() { return (tiles() & kByteTiles) != 0; }

PLIMSOLL_TILES void TileScope::begin() {
  __asm__ volatile("ldtilecfg %0" : : "m"(kWholeTiles) : "memory");
}
PLIMSOLL_TILES void TileScope::end() { __asm__ volatile("tilerelease" : : : "memory"); }
#else
bool has_bf16_tiles() { return false; }
bool has_byte_tiles() { return false; }
void TileScope::begin() {}
void TileScope::end() {}
#endif

}  // namespace plimsoll::kernels
