// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/product_loops.h"

namespace plimsoll::kernels {

// Where element (i, j) of a matrix of f32 lies: at data[i * row + j * column], one of both being 1.
struct MatrixStrides {
  std::int64_t row = 0, column = 0;
};

// A product of two f32 matrices, m x k by k x n, on all threads: the right operand is packed once
// for all of them, a block of the depth by a block of columns at a time, and blocks of rows of the
// left one as they are multiplied (K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008, with the packed block shared). The cut follows from m, n and k alone.
// Every element is the sum, in order, of the sums over blocks of the depth, so that its bits depend
// on k and the loops only, and not on m, n, strides or threads. Immutable; thread-safe.
class PackedProduct {
 public:
  // All of m, n and k are at least 1.
  PackedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                const ProductLoops& loops = product_loops());

  // Of `run`, a multiple of 64.
  std::int64_t workspace_bytes() const { return packed_bytes_ + slots_ * slot_bytes_; }

  // Rows of `out` are out_stride elements apart. `workspace` is aligned to 64 bytes.
  void run(const float* lhs, MatrixStrides lhs_strides, const float* rhs, MatrixStrides rhs_strides,
           float* out, std::int64_t out_stride, void* workspace) const;

 private:
  struct Block;

  void pack_block(const float* from, MatrixStrides strides, std::int64_t columns,
                  std::int64_t depth, float* packed) const;
  void fetch(const Block& block, const float* from, std::int64_t part, std::int64_t parts) const;
  void multiply_tile(const Block& block, std::int64_t tile, float* packed_rows) const;

  const ProductLoops& loops_;
  std::int64_t m_, n_, k_;
  std::int64_t depth_, width_;             // of a block of the right operand
  std::int64_t tile_rows_, tile_columns_;  // of a tile of a block's product
  std::int64_t row_tiles_, column_tiles_, slots_;
  std::int64_t packed_bytes_, slot_bytes_;
};

}  // namespace plimsoll::kernels
