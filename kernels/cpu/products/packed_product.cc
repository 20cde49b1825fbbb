// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/packed_product.h"

#include <algorithm>

#include "kernels/cpu/products/product_cuts.h"
#include "kernels/cpu/tile_registers.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// The packed block: in the last cache for all threads, a tile's part of it in the second.
constexpr std::int64_t kMostWidth = 1024;
constexpr std::int64_t kLeastTileColumns = 128;
// Where tiles are multiplied, which read it faster than the last cache gives it: all of it stays in
// the second cache while rows pass by, if columns are then enough that it pays to pack the rows for
// them; else more rows pass by at a time.
constexpr std::int64_t kSecondCacheBytes = 5 << 18, kEnoughColumns = 256;
constexpr std::int64_t kMostTileBytes = 1024;  // of a row, of which tiles have 64
// What few rows may take when they are packed.
constexpr std::int64_t kFewRowsBytes = 2 << 20;
// Columns that a task packs and multiplies together then, in at least so many tasks.
constexpr std::int64_t kMostPanelColumns = 128;
constexpr std::int64_t kLeastTasks = 4;
constexpr std::int64_t kPackedSteps = 8;
// Steps that are read ahead of those that are packed, where every one is a run of memory of its
// own.
constexpr std::int64_t kStepsAhead = 32;

// The size of equal parts, of which there are as few as possible.
std::int64_t even_part(std::int64_t size, std::int64_t most, std::int64_t multiple) {
  const std::int64_t parts = parts_of(size, most);
  return parts_of(parts_of(size, parts), multiple) * multiple;
}

}  // namespace

template <typename T>
std::int64_t PackedProduct<T>::block_depth(std::int64_t k, const ProductLoops<T>& loops) {
  return std::min(k, loops.uses_tiles ? even_part(k, kMostTileBytes / kNumberBytes<T>,
                                                  kBytesOfTileRow / kNumberBytes<T>)
                                      : even_part(k, kMostDepth, 16));
}

template <typename T>
struct PackedProduct<T>::Operands {
  const ProductRows<T>& lhs;
  const T* rhs;
  MatrixStrides rhs_strides;
  const ProductResult<T>& out;
  T* packed;
  std::byte* slots;
};

// A block of columns, and of the depth.
template <typename T>
struct PackedProduct<T>::Block {
  std::int64_t n0, columns, k0, depth;
};

// A task's own memory: what it packs, and sums that are not done.
template <typename T>
struct PackedProduct<T>::Slot {
  T* packed;
  Sum* sums;
};

template <typename T>
PackedProduct<T>::PackedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                                const ProductLoops<T>& loops)
    : loops_(loops), m_(m), n_(n), k_(k), most_slots_(most_product_slots<T>(m, n, k, loops)) {
  const std::int64_t most_bytes = most_workspace_bytes<T>(m, n, k);
  depth_ = block_depth(k, loops);
  round_depth_ = kNarrows ? k : depth_;
  if (m <= kFewRows && padded_rows(m, loops) <= kFewRowsBytes / kNumberBytes<T> / k) {
    for (std::int64_t width = kMostPanelColumns; width >= loops.columns; width /= 2) {
      cut_by_panels(width);
      if (workspace_bytes() <= most_bytes) return;
    }
  }
  if (loops.uses_tiles && cut_for_second_cache(most_bytes)) return;
  struct Cut {
    std::int64_t width, rows;
  };
  constexpr std::int64_t kRows = kProductTileRows;
  constexpr Cut kCuts[] = {{kMostWidth, kRows},         {kMostWidth, kRows / 2},
                           {kMostWidth / 2, kRows / 2}, {kMostWidth / 2, kRows / 4},
                           {kMostWidth / 4, kRows / 4}, {kMostWidth / 8, kRows / 4}};
  for (const Cut& cut : kCuts) {
    // Columns are worth more than rows where all of the depth is packed.
    cut_by_tiles(cut.width, kNarrows ? loops.rows : cut.rows);
    if (workspace_bytes() <= most_bytes) return;
  }
  if (loops.uses_tiles) {
    slots_ = std::clamp<std::int64_t>((most_bytes - packed_bytes_) / slot_bytes_, 1, slots_);
  }
}

template <typename T>
bool PackedProduct<T>::cut_for_second_cache(std::int64_t most_bytes) {
  const std::int64_t column_bytes = packed_depth<T>(round_depth_) * kNumberBytes<T>;
  const std::int64_t width =
      std::min(kMostWidth, kSecondCacheBytes / column_bytes / loops_.columns * loops_.columns);
  if (std::min(width, n_) < std::min(kEnoughColumns, n_)) {
    for (const std::int64_t most_width : {kMostWidth, kMostWidth / 2}) {
      cut_by_tiles(most_width, 4 * loops_.rows);
      if (workspace_bytes() <= most_bytes) return true;
    }
  }
  for (std::int64_t some = std::max(width, kEnoughColumns / 2); some >= kEnoughColumns / 2;
       some -= loops_.columns) {
    cut_by_tiles(some, loops_.rows);
    if (workspace_bytes() <= most_bytes) return true;
  }
  return false;
}

template <typename T>
void PackedProduct<T>::cut_by_tiles(std::int64_t most_width, std::int64_t most_rows) {
  is_by_panels_ = false;
  width_ = even_part(n_, most_width, loops_.columns);
  tile_rows_ = std::min(most_rows, parts_of(m_, loops_.rows) * loops_.rows);
  row_tiles_ = parts_of(m_, tile_rows_);
  // Columns make tiles, too, where there are few of rows.
  const std::int64_t wanted =
      std::clamp<std::int64_t>(most_slots_ / row_tiles_, 1, parts_of(width_, kLeastTileColumns));
  tile_columns_ = even_part(width_, parts_of(width_, wanted), loops_.columns);
  column_tiles_ = parts_of(width_, tile_columns_);
  slots_ = std::min(most_slots_, row_tiles_ * column_tiles_);
  packed_bytes_ = aligned_bytes(packed_depth<T>(round_depth_) * width_ * kNumberBytes<T>);
  own_sums_ = aligned_bytes(packed_depth<T>(depth_) * tile_rows_ * kNumberBytes<T>);
  slot_bytes_ = own_sums_;
  if (kNarrows && depth_ < k_) {
    slot_bytes_ += aligned_bytes(tile_rows_ * tile_columns_ * kNumberBytes<Sum>);
  }
}

template <typename T>
void PackedProduct<T>::cut_by_panels(std::int64_t most_width) {
  is_by_panels_ = true;
  const std::int64_t panels = parts_of(n_, loops_.columns);
  width_ = loops_.columns *
           std::clamp<std::int64_t>(panels / kLeastTasks, 1, most_width / loops_.columns);
  slots_ = std::min(most_slots_, parts_of(n_, width_));
  packed_bytes_ = aligned_bytes(padded_rows(m_, loops_) * packed_depth<T>(k_) * kNumberBytes<T>);
  own_sums_ = aligned_bytes(packed_depth<T>(depth_) * width_ * kNumberBytes<T>);
  slot_bytes_ = own_sums_;
  if (kNarrows && depth_ < k_) slot_bytes_ += aligned_bytes(m_ * width_ * kNumberBytes<Sum>);
}

template <typename T>
void PackedProduct<T>::run(const ProductRows<T>& lhs, const T* rhs, MatrixStrides rhs_strides,
                           const ProductResult<T>& out, void* workspace) const {
  const Operands operands{lhs,
                          rhs,
                          rhs_strides,
                          out,
                          static_cast<T*>(workspace),
                          static_cast<std::byte*>(workspace) + packed_bytes_};
  return is_by_panels_ ? run_by_panels(operands) : run_by_tiles(operands);
}

template <typename T>
typename PackedProduct<T>::Slot PackedProduct<T>::slot_of(const Operands& operands,
                                                          std::int64_t slot) const {
  std::byte* const at = operands.slots + slot * slot_bytes_;
  return {reinterpret_cast<T*>(at), reinterpret_cast<Sum*>(at + own_sums_)};
}

// Where sums over a block of the depth go that begin at element (i, j): what is narrowed is added
// up in `own` first.
template <typename T>
ProductTile<T> PackedProduct<T>::tile_of(const Operands& operands, std::int64_t i, std::int64_t j,
                                         std::int64_t k0, std::int64_t depth, Sum* own,
                                         std::int64_t own_stride) const {
  const std::int64_t stride = operands.out.stride, at = i * stride + j;
  if (operands.out.narrowed == nullptr) return {operands.out.sums + at, stride, k0 > 0};
  if (k0 + depth < k_) return {own, own_stride, k0 > 0};
  return {own, own_stride, k0 > 0, operands.out.narrowed + at, stride};
}

template <typename T>
void PackedProduct<T>::run_by_tiles(const Operands& operands) const {
  for (std::int64_t n0 = 0; n0 < n_; n0 += width_) {
    for (std::int64_t k0 = 0; k0 < k_; k0 += round_depth_) {
      const Block round{n0, std::min(width_, n_ - n0), k0, std::min(round_depth_, k_ - k0)};
      const auto for_blocks = [&](auto&& body) {
        for (std::int64_t d = 0; d < round.depth; d += depth_) {
          body(Block{n0, round.columns, k0 + d, std::min(depth_, round.depth - d)},
               operands.packed + d * width_);
        }
      };
      for_blocks([&](const Block& block, T* packed) { pack_block(operands, block, packed); });
      const std::int64_t tiles = row_tiles_ * column_tiles_;
      device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
        const TileScope tile_registers(loops_.uses_tiles);
        for (std::int64_t s = begin; s < end; ++s) {
          const Slot slot = slot_of(operands, s);
          for (std::int64_t tile = tiles * s / slots_; tile < tiles * (s + 1) / slots_; ++tile) {
            for_blocks([&](const Block& block, const T* packed) {
              multiply_tile(operands, block, tile, packed, slot);
            });
          }
        }
      });
    }
  }
}

// Steps [begin, end) of a block's depth, of all its panels, some steps after the other where rows
// lie together, so that memory is read in long runs; else panel by panel.
template <typename T>
void PackedProduct<T>::pack_columns(const T* from, MatrixStrides strides, std::int64_t columns,
                                    std::int64_t begin, std::int64_t end, std::int64_t depth,
                                    T* packed) const {
  const std::int64_t panel = loops_.columns;
  const std::int64_t steps = strides.column == 1 ? kPackedSteps : end - begin;
  for (std::int64_t d = begin; d < end; d += steps) {
    const std::int64_t ahead = std::min(steps, end - d - kStepsAhead);
    if (strides.column == 1 && ahead > 0) {
      fetch_panel(from + (d + kStepsAhead) * strides.row, 1, strides.row, columns, ahead, 0, 1);
    }
    for (std::int64_t j = 0; j < columns; j += panel) {
      loops_.pack(from + d * strides.row + j * strides.column, strides.column, strides.row,
                  std::min(panel, columns - j), panel, std::min(steps, end - d),
                  packed + j * packed_depth<T>(depth) + d * panel);
    }
  }
}

template <typename T>
void PackedProduct<T>::pack_block(const Operands& operands, const Block& block, T* packed) const {
  const MatrixStrides& strides = operands.rhs_strides;
  const T* const from = operands.rhs + block.k0 * strides.row + block.n0 * strides.column;
  const std::int64_t panel = loops_.columns;
  if (strides.column == 1) {  // by steps of the depth
    device::parallel_for(parts_of(block.depth, kPackedSteps),
                         std::max<std::int64_t>(1, kPackedAtOnce / (block.columns * kPackedSteps)),
                         [&](std::int64_t begin, std::int64_t end) {
                           pack_columns(from, strides, block.columns, begin * kPackedSteps,
                                        std::min(block.depth, end * kPackedSteps), block.depth,
                                        packed);
                         });
    return;
  }
  device::parallel_for(parts_of(block.columns, panel),
                       std::max<std::int64_t>(1, kPackedAtOnce / (block.depth * panel)),
                       [&](std::int64_t begin, std::int64_t end) {
                         const std::int64_t j = begin * panel;
                         pack_columns(from + j * strides.column, strides,
                                      std::min(block.columns, end * panel) - j, 0, block.depth,
                                      block.depth, packed + j * packed_depth<T>(block.depth));
                       });
}

// A panel of rows is packed when it is multiplied first; what the next one is packed of comes into
// the cache meanwhile.
template <typename T>
void PackedProduct<T>::multiply_tile(const Operands& operands, const Block& block,
                                     std::int64_t tile, const T* packed, const Slot& slot) const {
  const std::int64_t depth = block.depth, steps = packed_depth<T>(depth);
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
      T* const packed_rows = slot.packed + (i - m0) * steps;
      if (first == j0) operands.lhs.pack(i, rows, block.k0, depth, packed_rows);
      const std::int64_t next = i + loops_.rows;
      const std::int64_t next_rows = first == j0 ? std::min(loops_.rows, m_ - next) : 0;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        const std::int64_t j = first + panel * loops_.columns;
        if (next_rows > 0) operands.lhs.fetch(next, next_rows, block.k0, depth, panel, panels);
        loops_.multiply(packed_rows, packed + j * steps, rows, std::min(loops_.columns, last - j),
                        depth,
                        tile_of(operands, i, block.n0 + j, block.k0, depth,
                                slot.sums + (i - m0) * tile_columns_ + j - j0, tile_columns_));
      }
    }
  }
}

template <typename T>
void PackedProduct<T>::run_by_panels(const Operands& operands) const {
  pack_all_rows(operands.lhs, m_, k_, depth_, loops_, operands.packed);
  const std::int64_t tasks = parts_of(n_, width_);
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    const TileScope tile_registers(loops_.uses_tiles);
    for (std::int64_t s = begin; s < end; ++s) {
      const Slot slot = slot_of(operands, s);
      for (std::int64_t task = tasks * s / slots_; task < tasks * (s + 1) / slots_; ++task) {
        multiply_columns(operands, task * width_, slot);
      }
    }
  });
}

// What the next block of these columns is packed of comes into the cache meanwhile.
template <typename T>
void PackedProduct<T>::multiply_columns(const Operands& operands, std::int64_t j0,
                                        const Slot& slot) const {
  const MatrixStrides& strides = operands.rhs_strides;
  const std::int64_t row_panels = parts_of(m_, loops_.rows);
  const std::int64_t columns = std::min(width_, n_ - j0);
  for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
    const std::int64_t depth = std::min(depth_, k_ - k0);
    const T* const from = operands.rhs + k0 * strides.row + j0 * strides.column;
    pack_columns(from, strides, columns, 0, depth, depth, slot.packed);
    const std::int64_t next_depth = std::min(depth_, k_ - k0 - depth);
    for (std::int64_t i = 0; i < m_; i += loops_.rows) {
      if (next_depth > 0 && strides.column != 1) {
        fetch_panel(from + depth * strides.row, strides.column, strides.row, columns, next_depth,
                    i / loops_.rows, row_panels);
      }
      loops_.multiply(operands.packed + k0 * padded_rows(m_, loops_) + i * packed_depth<T>(depth),
                      slot.packed, std::min(loops_.rows, m_ - i), columns, depth,
                      tile_of(operands, i, j0, k0, depth, slot.sums + i * width_, width_));
    }
  }
}

template class PackedProduct<float>;
template class PackedProduct<double>;
template class PackedProduct<std::uint32_t>;
template class PackedProduct<std::uint64_t>;
template class PackedProduct<Bfloat16>;
template class PackedProduct<std::uint8_t>;

}  // namespace plimsoll::kernels
