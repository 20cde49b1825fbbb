// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plimsoll {

// What fusing is decided by: how fast a device computes, reads and launches. Only comparisons
// matter, so a kind of device has one table; nothing is measured, and a module fuses alike on all
// devices of a kind. These numbers are of two cores with vectors of 64 bytes.
struct KernelSpeeds {
  double additions_per_second = 32e9;
  double bytes_per_second = 32e9;  // from and to memory
  double launch_seconds = 0.4e-6;
  // What the kernel before has just written is still there when the next one reads it.
  double cached_bytes = 512 << 10;
  double cache_speedup = 4;
  // Cache lines that are used in part.
  double strided_factor = 2;
  // A gather whose neighbours come from different places reads them one by one: additions each.
  double scattered_read_work = 8;
};

}  // namespace plimsoll
