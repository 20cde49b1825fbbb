// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/prepared_product.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cpu/products/packed_product.h"
#include "kernels/cpu/products/product_cuts.h"
#include "runtime/base/alignment.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// What a task is worth.
constexpr double kProductsPerSlot = 1 << 20;

}  // namespace

struct PreparedProduct::Operands {
  const ProductRows& lhs;
  const float* prepared;
  float* out;
  std::int64_t out_stride;
};

PreparedProduct::PreparedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                                 const ProductLoops& loops)
    : loops_(loops),
      m_(m),
      n_(n),
      k_(k),
      depth_(PackedProduct::block_depth(k)),
      panels_(parts_of(n, loops.columns)),
      narrow_(n % loops.columns) {
  const std::int64_t most_bytes = most_workspace_bytes(m, n, k);
  const double products = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const auto wanted = static_cast<std::int64_t>(
      std::clamp(products / kProductsPerSlot, 1.0, static_cast<double>(kMostSlots)));
  packed_bytes_ = aligned_bytes(in_fours(m) * k * kFloatBytes);
  is_by_columns_ = m <= kFewRows && packed_bytes_ <= most_bytes;
  if (is_by_columns_) {
    slots_ = std::min(wanted, panels_);
    return;
  }
  packed_bytes_ = 0;
  for (tile_rows_ = parts_of(kProductTileRows, loops.rows) * loops.rows;;
       tile_rows_ -= loops.rows) {
    slots_ = std::min(wanted, parts_of(m, tile_rows_));
    slot_bytes_ = aligned_bytes(depth_ * tile_rows_ * kFloatBytes);
    if (workspace_bytes() <= most_bytes || tile_rows_ == loops.rows) return;
  }
}

void PreparedProduct::prepare(const float* rhs, MatrixStrides strides, float* prepared) const {
  for (std::int64_t j = 0; j < n_;) {
    const std::int64_t width = j == 0 && narrow_ > 0 ? narrow_ : loops_.columns;
    for (std::int64_t d = 0; d < k_; ++d) {
      for (std::int64_t i = 0; i < width; ++i) {
        *prepared++ = rhs[d * strides.row + (j + i) * strides.column];
      }
    }
    j += width;
  }
}

void PreparedProduct::run(const ProductRows& lhs, const float* prepared, float* out,
                          std::int64_t out_stride, void* workspace) const {
  const Operands operands{lhs, prepared, out, out_stride};
  if (is_by_columns_) {
    run_by_columns(operands, static_cast<float*>(workspace));
  } else {
    run_by_rows(operands, static_cast<std::byte*>(workspace));
  }
}

// Rows that are packed in panels of the loops' size, by panels of columns, over a block of the
// depth.
void PreparedProduct::multiply_panels(const Operands& operands, const float* packed_rows,
                                      std::int64_t first_row, std::int64_t rows, std::int64_t k0,
                                      std::int64_t depth, std::int64_t first_panel,
                                      std::int64_t last_panel) const {
  for (std::int64_t i = 0; i < rows; i += loops_.rows) {
    const std::int64_t some = std::min(loops_.rows, rows - i);
    float* const out = operands.out + (first_row + i) * operands.out_stride;
    for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
      const std::int64_t narrow = narrow_ > 0 ? loops_.columns - narrow_ : 0;
      const std::int64_t width = panel == 0 && narrow > 0 ? narrow_ : loops_.columns;
      const std::int64_t j = panel == 0 ? 0 : panel * loops_.columns - narrow;
      loops_.multiply_prepared(packed_rows + i * depth, operands.prepared + j * k_ + k0 * width,
                               some, width, depth, out + j, operands.out_stride, k0 > 0);
    }
  }
}

void PreparedProduct::run_by_columns(const Operands& operands, float* packed) const {
  pack_all_rows(operands.lhs, m_, k_, depth_, loops_, packed);
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
        multiply_panels(operands, packed + k0 * in_fours(m_), 0, m_, k0, std::min(depth_, k_ - k0),
                        panels_ * slot / slots_, panels_ * (slot + 1) / slots_);
      }
    }
  });
}

// A panel of rows is packed when the first columns are multiplied by it.
void PreparedProduct::run_by_rows(const Operands& operands, std::byte* slots) const {
  const std::int64_t tiles = parts_of(m_, tile_rows_);
  const std::int64_t group = parts_of(kProductTileColumns, loops_.columns);
  device::parallel_for(slots_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t slot = begin; slot < end; ++slot) {
      auto* const packed = reinterpret_cast<float*>(slots + slot * slot_bytes_);
      for (std::int64_t tile = tiles * slot / slots_; tile < tiles * (slot + 1) / slots_; ++tile) {
        const std::int64_t first = tile * tile_rows_, rows = std::min(tile_rows_, m_ - first);
        for (std::int64_t k0 = 0; k0 < k_; k0 += depth_) {
          const std::int64_t depth = std::min(depth_, k_ - k0);
          for (std::int64_t panel = 0; panel < panels_; panel += group) {
            const std::int64_t end_panel = std::min(panels_, panel + group);
            for (std::int64_t i = 0; i < rows; i += loops_.rows) {
              const std::int64_t some = std::min(loops_.rows, rows - i);
              float* const at = packed + i * depth;
              if (panel == 0) operands.lhs.pack(first + i, some, k0, depth, at);
              multiply_panels(operands, at, first + i, some, k0, depth, panel, end_panel);
            }
          }
        }
      }
    }
  });
}

}  // namespace plimsoll::kernels
