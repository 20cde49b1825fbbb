// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::planner {

// A buffer's life, half-open in time, and size in bytes.
struct Lifetime {
  std::int64_t lower = 0, upper = 0;  // alive in [lower, upper)
  std::int64_t size = 0;
};

struct Packing {
  std::vector<std::int64_t> offsets;  // multiples of the alignment
  std::int64_t height = 0;            // max of offset + size
  std::int64_t load = 0;  // max over time of the live (aligned) bytes: no packing is lower
};

// Offsets such that no two buffers that live at the same time overlap. A portfolio of orders with
// best fit, then a search on the critical windows; stops early at the load or at `target`.
// Deterministic: `effort` bounds the work, not the time.
Packing pack(std::span<const Lifetime> lifetimes, std::int64_t alignment, std::int64_t target = 0,
             int effort = 1);

}  // namespace plimsoll::planner
