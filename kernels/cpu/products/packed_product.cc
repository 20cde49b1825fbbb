// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/packed_product.h"

#include <algorithm>

#include "kernels/cpu/products/product_cuts.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// The packed block: in the last cache for all threads, a tile's part of it in the second.
constexpr std::int64_t kMostWidth = 1024;
constexpr std::int64_t kLeastTileColumns = 128;
// What few rows may take when they are packed.
constexpr std::int64_t kFewRowsNumbers = 1 << 19;
// Columns that a task packs and multiplies together then, in at least so many tasks.
constexpr std::int64_t kMostPanelColumns = 128;
constexpr std::int64_t kLeastTasks = 4;
constexpr std::int64_t kPackedSteps = 8;

// The size of equal parts, of which there are as few as possible.
std::int64_t even_part(std::int64_t size, std::int64_t most, std::int64_t multiple) {
  const std::int64_t parts = parts_of(size, most);
  return parts_of(parts_of(size, parts), multiple) * multiple;
}

}  // namespace

std::int64_t PackedProduct::block_depth(std::int64_t k) {
  return std::min(k, even_part(k, kMostDepth, 16));
}

struct PackedProduct::Operands {
  const ProductRows& lhs;
  const float* rhs;
  MatrixStrides rhs_strides;
  float* out;
  std::int64_t out_stride;
  float* packed;
  std::byte* slots;
};

// What one round packs, and multiplies.
struct PackedProduct::Block {
  std::int64_t n0, columns, k0, depth;
};

PackedProduct::PackedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                             const ProductLoops& loops)
    : loops_(loops), m_(m), n_(n), k_(k) {
  const std::int64_t most_bytes = most_workspace_bytes(m, n, k);
  depth_ = block_depth(k);
  if (m <= kFewRows && in_fours(m) <= kFewRowsNumbers / k) {
    for (std::int64_t width = kMostPanelColumns; width >= loops.columns; width /= 2) {
      cut_by_panels(width);
      if (workspace_bytes() <= most_bytes) return;
    }
  }
  struct Cut {
    std::int64_t width, rows;
  };
  for (const Cut cut :
       {Cut{kMostWidth, kProductTileRows}, Cut{kMostWidth, kProductTileRows / 2},
        Cut{kMostWidth / 2, kProductTileRows / 2}, Cut{kMostWidth / 2, kProductTileRows / 4},
        Cut{kMostWidth / 4, kProductTileRows / 4}}) {
    cut_by_tiles(cut.width, cut.rows);
    if (workspace_bytes() <= most_bytes) return;
  }
}

void PackedProduct::cut_by_tiles(std::int64_t most_width, std::int64_t most_rows) {
  is_by_panels_ = false;
  width_ = even_part(n_, most_width, loops_.columns);
  tile_rows_ = std::min(most_rows, parts_of(m_, loops_.rows) * loops_.rows);
  row_tiles_ = parts_of(m_, tile_rows_);
  // Columns make tiles, too, where there are few of rows.
  const std::int64_t wanted =
      std::clamp<std::int64_t>(kMostSlots / row_tiles_, 1, parts_of(width_, kLeastTileColumns));
  tile_columns_ = even_part(width_, parts_of(width_, wanted), loops_.columns);
  column_tiles_ = parts_of(width_, tile_columns_);
  slots_ = std::min(kMostSlots, row_tiles_ * column_tiles_);
  packed_bytes_ = aligned_bytes(depth_ * width_ * kFloatBytes);
  slot_bytes_ = aligned_bytes(depth_ * tile_rows_ * kFloatBytes);
}

void PackedProduct::cut_by_panels(std::int64_t most_width) {
  is_by_panels_ = true;
  const std::int64_t panels = parts_of(n_, loops_.columns);
  width_ = loops_.columns *
           std::clamp<std::int64_t>(panels / kLeastTasks, 1, most_width / loops_.columns);
  slots_ = std::min(kMostSlots, parts_of(n_, width_));
  packed_bytes_ = aligned_bytes(in_fours(m_) * k_ * kFloatBytes);
  slot_bytes_ = aligned_bytes(depth_ * width_ * kFloatBytes);
}

void PackedProduct::run(const ProductRows& lhs, const float* rhs, MatrixStrides rhs_strides,
                        float* out, std::int64_t out_stride, void* workspace) const {
  const Operands operands{lhs,
                          rhs,
                          rhs_strides,
                          out,
                          out_stride,
                          static_cast<float*>(workspace),
                          static_cast<std::byte*>(workspace) + packed_bytes_};
  return is_by_panels_ ? run_by_panels(operands) : run_by_tiles(operands);
}

void PackedProduct::run_by_tiles(const Operands& operands) const {
  for (std::int64_t n0 = 0; n0 < n_; n0 += width_) {
    for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
      const Block block{n0, std::min(width_, n_ - n0), k0, std::min(depth_, k_ - k0)};
      pack_block(operands, block);
      const std::int64_t tiles = row_tiles_ * column_tiles_;
      device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t slot = begin; slot < end; ++slot) {
          auto* const rows = reinterpret_cast<float*>(operands.slots + slot * slot_bytes_);
          for (std::int64_t tile = tiles * slot / slots_; tile < tiles * (slot + 1) / slots_;
               ++tile) {
            multiply_tile(operands, block, tile, rows);
          }
        }
      });
    }
  }
}

// Steps [begin, end) of a block's depth, of all its panels, some steps after the other where rows
// lie together, so that memory is read in long runs; else panel by panel.
void PackedProduct::pack_columns(const float* from, MatrixStrides strides, std::int64_t columns,
                                 std::int64_t begin, std::int64_t end, std::int64_t depth,
                                 float* packed) const {
  const std::int64_t panel = loops_.columns;
  const std::int64_t steps = strides.column == 1 ? kPackedSteps : end - begin;
  for (std::int64_t d = begin; d < end; d += steps) {
    for (std::int64_t j = 0; j < columns; j += panel) {
      loops_.pack(from + d * strides.row + j * strides.column, strides.column, strides.row,
                  std::min(panel, columns - j), panel, std::min(steps, end - d),
                  packed + j * depth + d * panel);
    }
  }
}

void PackedProduct::pack_block(const Operands& operands, const Block& block) const {
  const MatrixStrides& strides = operands.rhs_strides;
  const float* const from = operands.rhs + block.k0 * strides.row + block.n0 * strides.column;
  const std::int64_t panel = loops_.columns;
  if (strides.column == 1) {  // by steps of the depth
    device::parallel_for(parts_of(block.depth, kPackedSteps),
                         std::max<std::int64_t>(1, kPackedAtOnce / (block.columns * kPackedSteps)),
                         [&](std::int64_t begin, std::int64_t end) {
                           pack_columns(from, strides, block.columns, begin * kPackedSteps,
                                        std::min(block.depth, end * kPackedSteps), block.depth,
                                        operands.packed);
                         });
    return;
  }
  device::parallel_for(parts_of(block.columns, panel),
                       std::max<std::int64_t>(1, kPackedAtOnce / (block.depth * panel)),
                       [&](std::int64_t begin, std::int64_t end) {
                         const std::int64_t j = begin * panel;
                         pack_columns(from + j * strides.column, strides,
                                      std::min(block.columns, end * panel) - j, 0, block.depth,
                                      block.depth, operands.packed + j * block.depth);
                       });
}

// A panel of rows is packed when it is multiplied first; what the next one is packed of comes into
// the cache meanwhile.
void PackedProduct::multiply_tile(const Operands& operands, const Block& block, std::int64_t tile,
                                  float* packed_rows) const {
  const std::int64_t depth = block.depth;
  const std::int64_t m0 = tile / column_tiles_ * tile_rows_;
  const std::int64_t m1 = std::min(m_, m0 + tile_rows_);
  const std::int64_t j0 = tile % column_tiles_ * tile_columns_;
  const std::int64_t j1 = std::min(block.columns, j0 + tile_columns_);
  const std::int64_t some = parts_of(kProductTileColumns, loops_.columns) * loops_.columns;
  for (std::int64_t first = j0; first < j1; first += some) {
    const std::int64_t last = std::min(j1, first + some);
    const std::int64_t panels = parts_of(last - first, loops_.columns);
    for (std::int64_t i = m0; i < m1; i += loops_.rows) {
      const std::int64_t rows = std::min(loops_.rows, m1 - i);
      float* const packed = packed_rows + (i - m0) * depth;
      if (first == j0) operands.lhs.pack(i, rows, block.k0, depth, packed);
      const std::int64_t next = i + loops_.rows;
      const std::int64_t next_rows = first == j0 ? std::min(loops_.rows, m_ - next) : 0;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t j = first + panel * loops_.columns;
        if (next_rows > 0) operands.lhs.fetch(next, next_rows, block.k0, depth, panel, panels);
        loops_.multiply(packed, operands.packed + j * depth, rows,
                        std::min(loops_.columns, last - j), depth,
                        operands.out + i * operands.out_stride + block.n0 + j, operands.out_stride,
                        block.k0 > 0);
      }
    }
  }
}

void PackedProduct::run_by_panels(const Operands& operands) const {
  pack_all_rows(operands.lhs, m_, k_, depth_, loops_, operands.packed);
  const std::int64_t tasks = parts_of(n_, width_);
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      auto* const columns = reinterpret_cast<float*>(operands.slots + slot * slot_bytes_);
      for (std::int64_t task = tasks * slot / slots_; task < tasks * (slot + 1) / slots_; ++task) {
        multiply_columns(operands, task * width_, columns);
      }
    }
  });
}

// What the next block of these columns is packed of comes into the cache meanwhile.
void PackedProduct::multiply_columns(const Operands& operands, std::int64_t j0,
                                     float* packed_columns) const {
  const MatrixStrides& strides = operands.rhs_strides;
  const std::int64_t row_panels = parts_of(m_, loops_.rows);
  const std::int64_t columns = std::min(width_, n_ - j0);
  for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
    const std::int64_t depth = std::min(depth_, k_ - k0);
    const float* const from = operands.rhs + k0 * strides.row + j0 * strides.column;
    pack_columns(from, strides, columns, 0, depth, depth, packed_columns);
    const std::int64_t next_depth = std::min(depth_, k_ - k0 - depth);
    for (std::int64_t i = 0; i < m_; i += loops_.rows) {
      if (next_depth > 0) {
        fetch_panel(from + depth * strides.row, strides.column, strides.row, columns, next_depth,
                    i / loops_.rows, row_panels);
      }
      loops_.multiply(operands.packed + k0 * in_fours(m_) + i * depth, packed_columns,
                      std::min(loops_.rows, m_ - i), columns, depth,
                      operands.out + i * operands.out_stride + j0, operands.out_stride, k0 > 0);
    }
  }
}

}  // namespace plimsoll::kernels
