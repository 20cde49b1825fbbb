// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/product_loops.h"
#include "kernels/cpu/products/product_rows.h"

namespace plimsoll::kernels {

// A product of two f32 matrices, m x k by k x n, on all threads, packed in panels and multiplied
// from them (K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// 2008). What is packed once for all threads follows from m, n and k alone:
// - the right operand, a block of the depth by a block of columns at a time; tiles of it are
//   multiplied by rows of the left one, which are packed as they are needed; or
// - where rows are few, the left operand as a whole; then some panels of columns are a task, which
//   packs them and multiplies them by all rows.
// Every element is the sum, in order, of the sums over blocks of the depth, so that its bits depend
// on k and the loops only, and not on m, n, strides or threads. Immutable; thread-safe.
class PackedProduct {
 public:
  // Rows are packed so much of the depth at a time at most: with this a panel of rows stays in the
  // first cache while panels of columns pass by.
  static constexpr std::int64_t kMostDepth = 384;
  // How much of a depth a sum goes over before it is added to the others.
  static std::int64_t block_depth(std::int64_t k);

  // All of m, n and k are at least 1.
  PackedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                const ProductLoops& loops = product_loops());

  // Of `run`, a multiple of 64: at most an eighth of the bytes of operands and result, or 3/4 MiB.
  std::int64_t workspace_bytes() const { return packed_bytes_ + slots_ * slot_bytes_; }

  // Rows of `out` are out_stride elements apart. `workspace` is aligned to 64 bytes.
  void run(const ProductRows& lhs, const float* rhs, MatrixStrides rhs_strides, float* out,
           std::int64_t out_stride, void* workspace) const;

 private:
  struct Block;
  struct Operands;

  // How the work is cut: `most` of each at most.
  void cut_by_tiles(std::int64_t most_width, std::int64_t most_rows);
  void cut_by_panels(std::int64_t most_width);
  void run_by_tiles(const Operands& operands) const;
  void pack_columns(const float* from, MatrixStrides strides, std::int64_t columns,
                    std::int64_t begin, std::int64_t end, std::int64_t depth, float* packed) const;
  void pack_block(const Operands& operands, const Block& block) const;
  void multiply_tile(const Operands& operands, const Block& block, std::int64_t tile,
                     float* packed_rows) const;
  void run_by_panels(const Operands& operands) const;
  void multiply_columns(const Operands& operands, std::int64_t j0, float* packed_columns) const;

  const ProductLoops& loops_;
  std::int64_t m_, n_, k_;
  bool is_by_panels_ = false;                      // few rows, packed as a whole
  std::int64_t depth_ = 0, width_ = 0;             // of a block of the right operand
  std::int64_t tile_rows_ = 0, tile_columns_ = 0;  // of a tile of a block's product
  std::int64_t row_tiles_ = 0, column_tiles_ = 0, slots_ = 0;
  std::int64_t packed_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace plimsoll::kernels
