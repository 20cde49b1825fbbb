// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/products/product_loops.h"
#include "kernels/cpu/products/product_rows.h"
#include "runtime/device/cpu/parallel.h"

// How products are cut into tasks, by whatever the right operand comes as.
namespace plimsoll::kernels {

template <typename T>
inline constexpr auto kNumberBytes = static_cast<std::int64_t>(sizeof(T));
// Rows of a tile, which passes by so many columns at a time: these stay in the second cache.
inline constexpr std::int64_t kProductTileRows = 48;
inline constexpr std::int64_t kProductTileColumns = 384;
// Rows that are packed as a whole.
inline constexpr std::int64_t kFewRows = 240;
// Numbers that are worth packing on another thread.
inline constexpr std::int64_t kPackedAtOnce = 1 << 16;

inline std::int64_t parts_of(std::int64_t size, std::int64_t most) {
  return (size + most - 1) / most;
}
inline std::int64_t in_fours(std::int64_t rows) { return parts_of(rows, 4) * 4; }

// Rows as a panel of the left operand has them, with those that fill it up.
template <typename T>
std::int64_t padded_rows(std::int64_t rows, const ProductLoops<T>& loops) {
  return parts_of(rows, loops.row_step) * loops.row_step;
}

// Tasks at once, at most: each has memory of its own, and should be worth it. Of numbers that are
// added up in wider ones it has sums there, too, so that there are fewer.
template <typename T>
std::int64_t most_product_slots(std::int64_t m, std::int64_t n, std::int64_t k,
                                const ProductLoops<T>& loops) {
  constexpr double kMost = 16, kMostOfNarrow = 8;
  // Tiles take an eighth of the time.
  const double per_slot = loops.uses_tiles ? 1 << 23 : 1 << 19;
  const double narrow_are_few_below = loops.uses_tiles ? 1U << 31 : 1 << 30;
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool are_few = sizeof(T) < sizeof(ProductSum<T>) && products < narrow_are_few_below;
  return static_cast<std::int64_t>(
      std::clamp(products / per_slot, 1.0, are_few ? kMostOfNarrow : kMost));
}

// What a workspace may take of m x k by k x n: it is part of a program's peak, and so a small share
// of what is multiplied, or small. Products of bf16 and of bytes keep more of a depth, as sums must
// not be rounded between.
template <typename T>
std::int64_t most_workspace_bytes(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t kShare = sizeof(T) < sizeof(ProductSum<T>) ? 4 : 8;
  constexpr std::int64_t kLeast = 32 << 10, kSmall = 512 << 10, kShareOfSmall = 2;
  const std::int64_t bytes = kNumberBytes<T> * (m * k + k * n + m * n);
  return std::max({bytes / kShare, std::min(kSmall, bytes / kShareOfSmall), kLeast});
}

// All of m rows, in panels, a block of the depth after the other, on all threads.
template <typename T>
void pack_all_rows(const ProductRows<T>& rows, std::int64_t m, std::int64_t k,
                   std::int64_t block_depth, const ProductLoops<T>& loops, T* packed) {
  const std::int64_t panels = parts_of(m, loops.rows);
  device::parallel_for(
      panels * parts_of(k, block_depth),
      std::max<std::int64_t>(1, kPackedAtOnce / (loops.rows * block_depth)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t k0 = unit / panels * block_depth, i = unit % panels * loops.rows;
          const std::int64_t depth = std::min(block_depth, k - k0);
          rows.pack(i, std::min(loops.rows, m - i), k0, depth,
                    packed + k0 * padded_rows(m, loops) + i * packed_depth<T>(depth));
        }
      });
}

}  // namespace plimsoll::kernels
