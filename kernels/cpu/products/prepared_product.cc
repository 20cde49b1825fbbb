// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/prepared_product.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/products/product_cuts.h"
#include "kernels/cpu/tile_registers.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// Panels that pass by the same rows before other rows come, of a task that adds up in own sums.
constexpr std::int64_t kPanelsOfOwnSums = 4;

}  // namespace

// Packed rows [first, first + rows), panel by panel, over a block of the depth, by some panels of
// columns.
template <typename T>
struct PreparedProduct<T>::Block {
  const T* packed_rows;
  std::int64_t first, rows, k0, depth, first_panel, last_panel;
};

template <typename T>
PreparedProduct<T>::PreparedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                                    const ProductLoops<T>& loops)
    : loops_(loops),
      m_(m),
      n_(n),
      k_(k),
      depth_(PackedProduct<T>::block_depth(k, loops)),
      panels_(parts_of(n, loops.columns)),
      narrow_(n % loops.columns) {
  const std::int64_t most_bytes = most_workspace_bytes<T>(m, n, k);
  const bool has_own_sums = kNarrows && depth_ < k;
  const std::int64_t wanted = most_product_slots<T>(m, n, k, loops);
  packed_bytes_ = aligned_bytes(padded_rows(m, loops) * packed_depth<T>(k) * kNumberBytes<T>);
  slots_ = std::min(wanted, panels_);
  if (has_own_sums) {
    slot_bytes_ = aligned_bytes(m * kPanelsOfOwnSums * loops.columns * kNumberBytes<Sum>);
  }
  is_by_columns_ =
      m <= kFewRows && (has_own_sums ? workspace_bytes() : packed_bytes_) <= most_bytes;
  if (is_by_columns_) return;
  packed_bytes_ = 0;
  round_depth_ = has_own_sums ? k : depth_;
  for (tile_rows_ = parts_of(kProductTileRows, loops.rows) * loops.rows;;
       tile_rows_ -= loops.rows) {
    slots_ = std::min(wanted, parts_of(m, tile_rows_));
    own_sums_ = aligned_bytes(packed_depth<T>(round_depth_) * tile_rows_ * kNumberBytes<T>);
    slot_bytes_ = own_sums_;
    if (has_own_sums) {
      slot_bytes_ +=
          aligned_bytes(tile_rows_ * kPanelsOfOwnSums * loops.columns * kNumberBytes<Sum>);
    }
    if (workspace_bytes() <= most_bytes) return;
    if (tile_rows_ == loops.rows) break;
  }
  if (has_own_sums) slots_ = std::clamp<std::int64_t>(most_bytes / slot_bytes_, 1, slots_);
}

template <typename T>
void PreparedProduct<T>::prepare(const T* rhs, MatrixStrides strides, T* prepared) const {
  constexpr std::int64_t kStep = ProductNumbers<T>::kStep;
  for (std::int64_t j = 0; j < n_;) {
    const std::int64_t width = j == 0 && narrow_ > 0 ? narrow_ : loops_.columns;
    for (std::int64_t d = 0; d < k_; d += kStep) {
      for (std::int64_t i = 0; i < width; ++i) {
        for (std::int64_t s = d; s < d + kStep; ++s) {
          *prepared++ = s < k_ ? rhs[s * strides.row + (j + i) * strides.column] : T{};
        }
      }
    }
    j += width;
  }
}

template <typename T>
void PreparedProduct<T>::run(const ProductRows<T>& lhs, const T* prepared,
                             const ProductResult<T>& out, void* workspace) const {
  auto* const memory = static_cast<std::byte*>(workspace);
  return is_by_columns_ ? run_by_columns(lhs, prepared, out, memory)
                        : run_by_rows(lhs, prepared, out, memory);
}

// What is narrowed is added up in `own` first, whose rows are kPanelsOfOwnSums panels.
template <typename T>
void PreparedProduct<T>::multiply_block(const Block& block, const T* prepared,
                                        const ProductResult<T>& out, Sum* own) const {
  const std::int64_t own_stride = kPanelsOfOwnSums * loops_.columns;
  for (std::int64_t i = 0; i < block.rows; i += loops_.rows) {
    const std::int64_t some = std::min(loops_.rows, block.rows - i);
    for (std::int64_t panel = block.first_panel; panel < block.last_panel; ++panel) {
      const std::int64_t narrow = narrow_ > 0 ? loops_.columns - narrow_ : 0;
      const std::int64_t width = panel == 0 && narrow > 0 ? narrow_ : loops_.columns;
      const std::int64_t j = panel == 0 ? 0 : panel * loops_.columns - narrow;
      const std::int64_t at = (block.first + i) * out.stride + j;
      ProductTile<T> tile{out.sums, out.stride, block.k0 > 0};
      if (out.narrowed == nullptr) {
        tile.sums += at;
      } else {
        tile.sums = own + i * own_stride + (panel - block.first_panel) * loops_.columns;
        tile.stride = own_stride;
        if (block.k0 + block.depth == k_) {
          tile.narrowed = out.narrowed + at;
          tile.narrowed_stride = out.stride;
        }
      }
      loops_.multiply_prepared(block.packed_rows + i * packed_depth<T>(block.depth),
                               prepared + j * packed_depth<T>(k_) + block.k0 * width, some, width,
                               block.depth, tile);
    }
  }
}

template <typename T>
void PreparedProduct<T>::run_by_columns(const ProductRows<T>& lhs, const T* prepared,
                                        const ProductResult<T>& out, std::byte* workspace) const {
  auto* const packed = reinterpret_cast<T*>(workspace);
  pack_all_rows(lhs, m_, k_, depth_, loops_, packed);
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    const TileScope tile_registers(loops_.uses_tiles);
    for (std::int64_t slot = begin; slot < end; ++slot) {
      auto* const own = reinterpret_cast<Sum*>(workspace + packed_bytes_ + slot * slot_bytes_);
      const std::int64_t last = panels_ * (slot + 1) / slots_;
      const std::int64_t group = slot_bytes_ > 0 ? kPanelsOfOwnSums : panels_;
      for (std::int64_t panel = panels_ * slot / slots_; panel < last; panel += group) {
        for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
          multiply_block({packed + k0 * padded_rows(m_, loops_), 0, m_, k0,
                          std::min(depth_, k_ - k0), panel, std::min(last, panel + group)},
                         prepared, out, own);
        }
      }
    }
  });
}

// A panel of rows is packed when the first columns are multiplied by it.
template <typename T>
void PreparedProduct<T>::run_by_rows(const ProductRows<T>& lhs, const T* prepared,
                                     const ProductResult<T>& out, std::byte* workspace) const {
  const std::int64_t tiles = parts_of(m_, tile_rows_);
  const std::int64_t group =
      slot_bytes_ > own_sums_ ? kPanelsOfOwnSums : parts_of(kProductTileColumns, loops_.columns);
  const auto run_tile = [&](std::int64_t first, T* packed, Sum* own) {
    const std::int64_t rows = std::min(tile_rows_, m_ - first);
    for (std::int64_t round = 0; round < k_; round += round_depth_) {
      const std::int64_t end = std::min(k_, round + round_depth_);
      for (std::int64_t panel = 0; panel < panels_; panel += group) {
        const std::int64_t end_panel = std::min(panels_, panel + group);
        for (std::int64_t k0 = round; k0 < end; k0 += depth_) {
          const std::int64_t depth = std::min(depth_, end - k0);
          for (std::int64_t i = 0; i < rows; i += loops_.rows) {
            const std::int64_t some = std::min(loops_.rows, rows - i);
            T* const at = packed + (k0 - round) * tile_rows_ + i * packed_depth<T>(depth);
            if (panel == 0) lhs.pack(first + i, some, k0, depth, at);
            multiply_block({at, first + i, some, k0, depth, panel, end_panel}, prepared, out,
                           own + i * kPanelsOfOwnSums * loops_.columns);
          }
        }
      }
    }
  };
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    const TileScope tile_registers(loops_.uses_tiles);
    for (std::int64_t slot = begin; slot < end; ++slot) {
      std::byte* const memory = workspace + slot * slot_bytes_;
      for (std::int64_t tile = tiles * slot / slots_; tile < tiles * (slot + 1) / slots_; ++tile) {
        run_tile(tile * tile_rows_, reinterpret_cast<T*>(memory),
                 reinterpret_cast<Sum*>(memory + own_sums_));
      }
    }
  });
}

template class PreparedProduct<float>;
template class PreparedProduct<double>;
template class PreparedProduct<std::uint32_t>;
template class PreparedProduct<std::uint64_t>;
template class PreparedProduct<Bfloat16>;
template class PreparedProduct<std::uint8_t>;

}  // namespace plimsoll::kernels
