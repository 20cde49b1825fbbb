// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/packed_product.h"

#include <algorithm>

#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// A panel of rows of this depth stays in the first cache while panels of columns pass by.
constexpr std::int64_t kMostDepth = 384;
// The packed block: in the last cache for all threads, a tile's part of it in the second.
constexpr std::int64_t kMostWidth = 1024;
constexpr std::int64_t kTileRows = 48;
constexpr std::int64_t kTileColumns = 384;
constexpr std::int64_t kLeastTileColumns = 128;
constexpr std::int64_t kMostSlots = 16;
// Numbers that are worth packing on another thread.
constexpr std::int64_t kPackedAtOnce = 1 << 15;
constexpr std::int64_t kPackedSteps = 8;

std::int64_t parts_of(std::int64_t size, std::int64_t most) { return (size + most - 1) / most; }

// The size of equal parts, of which there are as few as possible.
std::int64_t even_part(std::int64_t size, std::int64_t most, std::int64_t multiple) {
  const std::int64_t parts = parts_of(size, most);
  return parts_of(parts_of(size, parts), multiple) * multiple;
}

}  // namespace

// What one round packs, and multiplies.
struct PackedProduct::Block {
  const float *lhs, *packed;
  MatrixStrides lhs_strides;
  float* out;
  std::int64_t out_stride;
  std::int64_t columns, depth;
  bool add;
};

PackedProduct::PackedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                             const ProductLoops& loops)
    : loops_(loops), m_(m), n_(n), k_(k) {
  depth_ = std::min(k, even_part(k, kMostDepth, 16));
  width_ = even_part(n, kMostWidth, loops.columns);
  tile_rows_ = std::min(kTileRows, parts_of(m, loops.rows) * loops.rows);
  row_tiles_ = parts_of(m, tile_rows_);
  // Few rows: columns make tiles, too.
  const std::int64_t wanted =
      std::clamp<std::int64_t>(kMostSlots / row_tiles_, 1, parts_of(width_, kLeastTileColumns));
  tile_columns_ = even_part(width_, parts_of(width_, wanted), loops.columns);
  column_tiles_ = parts_of(width_, tile_columns_);
  slots_ = std::min(kMostSlots, row_tiles_ * column_tiles_);
  packed_bytes_ = aligned_bytes(depth_ * width_ * static_cast<std::int64_t>(sizeof(float)));
  slot_bytes_ = aligned_bytes(depth_ * tile_rows_ * static_cast<std::int64_t>(sizeof(float)));
}

void PackedProduct::run(const float* lhs, MatrixStrides lhs_strides, const float* rhs,
                        MatrixStrides rhs_strides, float* out, std::int64_t out_stride,
                        void* workspace) const {
  auto* const packed = static_cast<float*>(workspace);
  auto* const slots = static_cast<std::byte*>(workspace) + packed_bytes_;
  for (std::int64_t n0 = 0; n0 < n_; n0 += width_) {
    const std::int64_t columns = std::min(width_, n_ - n0);
    for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
      const std::int64_t depth = std::min(depth_, k_ - k0);
      pack_block(rhs + k0 * rhs_strides.row + n0 * rhs_strides.column, rhs_strides, columns, depth,
                 packed);
      const Block block{lhs + k0 * lhs_strides.column,
                        packed,
                        lhs_strides,
                        out + n0,
                        out_stride,
                        columns,
                        depth,
                        k0 > 0};
      const std::int64_t tiles = row_tiles_ * column_tiles_;
      device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t slot = begin; slot < end; ++slot) {
          auto* const rows = reinterpret_cast<float*>(slots + slot * slot_bytes_);
          for (std::int64_t tile = tiles * slot / slots_; tile < tiles * (slot + 1) / slots_;
               ++tile) {
            multiply_tile(block, tile, rows);
          }
        }
      });
    }
  }
}

// Some steps of the depth of all panels after each other where rows lie together, so that memory is
// read in long runs; else panel by panel.
void PackedProduct::pack_block(const float* from, MatrixStrides strides, std::int64_t columns,
                               std::int64_t depth, float* packed) const {
  const std::int64_t panel = loops_.columns;
  const std::int64_t panels = parts_of(columns, panel);
  const std::int64_t steps = strides.column == 1 ? kPackedSteps : depth;
  const std::int64_t units = parts_of(depth, steps) * panels;
  device::parallel_for(units, std::max<std::int64_t>(1, kPackedAtOnce / (panel * steps)),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t unit = begin; unit < end; ++unit) {
                           const std::int64_t d = unit / panels * steps, j = unit % panels * panel;
                           loops_.pack(from + d * strides.row + j * strides.column, strides.column,
                                       strides.row, std::min(panel, columns - j), panel,
                                       std::min(steps, depth - d), packed + j * depth + d * panel);
                         }
                       });
}

// Asks for a share of what packing reads next: `rows` rows, or runs along them, from `from` on.
void PackedProduct::fetch(const Block& block, const float* from, std::int64_t part,
                          std::int64_t parts) const {
  const MatrixStrides& strides = block.lhs_strides;
  if (strides.row == 1) {
    const std::int64_t end = block.depth * (part + 1) / parts;
    for (std::int64_t d = block.depth * part / parts; d < end; ++d) {
      __builtin_prefetch(from + d * strides.column);
    }
    return;
  }
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = parts_of(block.depth, kLine);
  const std::int64_t begin = lines * part / parts, end = lines * (part + 1) / parts;
  for (std::int64_t i = 0; i < loops_.rows; ++i) {
    const float* const row = from + i * strides.row;
    for (std::int64_t line = begin; line < end; ++line) __builtin_prefetch(row + line * kLine);
  }
}

// A panel of rows is packed when it is multiplied first; what the next one is packed of comes into
// the cache meanwhile.
void PackedProduct::multiply_tile(const Block& block, std::int64_t tile, float* packed_rows) const {
  const std::int64_t m0 = tile / column_tiles_ * tile_rows_;
  const std::int64_t m1 = std::min(m_, m0 + tile_rows_);
  const std::int64_t j0 = tile % column_tiles_ * tile_columns_;
  const std::int64_t j1 = std::min(block.columns, j0 + tile_columns_);
  const std::int64_t some = parts_of(kTileColumns, loops_.columns) * loops_.columns;
  const MatrixStrides& strides = block.lhs_strides;
  for (std::int64_t first = j0; first < j1; first += some) {
    const std::int64_t last = std::min(j1, first + some);
    const std::int64_t panels = parts_of(last - first, loops_.columns);
    for (std::int64_t i = m0; i < m1; i += loops_.rows) {
      const std::int64_t rows = std::min(loops_.rows, m1 - i);
      float* const packed = packed_rows + (i - m0) * block.depth;
      if (first == j0) {
        loops_.pack(block.lhs + i * strides.row, strides.row, strides.column, rows,
                    parts_of(rows, 4) * 4, block.depth, packed);
      }
      const bool goes_on = first == j0 && i + 2 * loops_.rows <= m_;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t j = first + panel * loops_.columns;
        if (goes_on) fetch(block, block.lhs + (i + loops_.rows) * strides.row, panel, panels);
        loops_.multiply(packed, block.packed + j * block.depth, rows,
                        std::min(loops_.columns, last - j), block.depth,
                        block.out + i * block.out_stride + j, block.out_stride, block.add);
      }
    }
  }
}

}  // namespace plimsoll::kernels
