// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/product_loops.h"
#include "kernels/cpu/products/product_rows.h"

namespace plimsoll::kernels {

// Where a product goes, rows `stride` elements apart: the sums, or, of numbers that are added up in
// wider ones, these numbers again, each rounded once (then `sums` is null).
template <typename T>
struct ProductResult {
  ProductSum<T>* sums;
  std::int64_t stride;
  T* narrowed = nullptr;
};

// A product of two matrices, m x k by k x n, on all threads, packed in panels and multiplied
// from them (K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// 2008). What is packed once for all threads follows from m, n and k alone:
// - the right operand, a block of the depth (of bf16 all of it, as sums that are not done are wider
//   than the result) by a block of columns at a time; tiles of it are multiplied by rows of the
//   left one, which are packed as they are needed; or
// - where rows are few, the left operand as a whole; then some panels of columns are a task, which
//   packs them and multiplies them by all rows.
// Every element is the sum, in order, of the sums over blocks of the depth, or one sum over all of
// it where loops use tiles, so that its bits depend on k and the loops only, and not on m, n,
// strides or threads. Of whatever there are loops for (of Bfloat16 not on every machine).
// Immutable; thread-safe.
template <typename T>
class PackedProduct {
 public:
  using Sum = ProductSum<T>;

  // Rows are packed so much of the depth at a time at most: with this a panel of rows stays in the
  // first cache while panels of columns pass by.
  static constexpr std::int64_t kMostDepth = (sizeof(T) <= 2 ? 2048 : 1536) / sizeof(T);
  // How much of a depth a sum goes over before it is added to the others (of tiles before it goes
  // on from them).
  static std::int64_t block_depth(std::int64_t k, const ProductLoops<T>& loops);

  // All of m, n and k are at least 1.
  PackedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                const ProductLoops<T>& loops = product_loops<T>());

  // Of `run`, a multiple of 64: at most an eighth of the bytes of operands and result, of bf16 a
  // quarter, or, where these are small, half of them and 3/4 MiB, or 64 KiB.
  std::int64_t workspace_bytes() const { return packed_bytes_ + slots_ * slot_bytes_; }

  // Tasks that `run` is cut into.
  std::int64_t slots() const { return slots_; }

  // `workspace` is aligned to 64 bytes.
  void run(const ProductRows<T>& lhs, const T* rhs, MatrixStrides rhs_strides,
           const ProductResult<T>& out, void* workspace) const;

 private:
  struct Block;
  struct Operands;
  struct Slot;
  static constexpr bool kNarrows = sizeof(T) < sizeof(Sum);

  // How the work is cut: `most` of each at most.
  void cut_by_tiles(std::int64_t most_width, std::int64_t most_rows);
  bool cut_for_second_cache(std::int64_t most_bytes);
  void cut_by_panels(std::int64_t most_width);
  Slot slot_of(const Operands& operands, std::int64_t slot) const;
  ProductTile<T> tile_of(const Operands& operands, std::int64_t i, std::int64_t j, std::int64_t k0,
                         std::int64_t depth, Sum* own, std::int64_t own_stride) const;
  void run_by_tiles(const Operands& operands) const;
  void pack_columns(const T* from, MatrixStrides strides, std::int64_t columns, std::int64_t begin,
                    std::int64_t end, std::int64_t depth, T* packed) const;
  void pack_block(const Operands& operands, const Block& block, T* packed) const;
  void multiply_tile(const Operands& operands, const Block& block, std::int64_t tile,
                     const T* packed, const Slot& slot) const;
  void run_by_panels(const Operands& operands) const;
  void multiply_columns(const Operands& operands, std::int64_t j0, const Slot& slot) const;

  const ProductLoops<T>& loops_;
  std::int64_t m_, n_, k_;
  std::int64_t most_slots_;
  bool is_by_panels_ = false;                      // few rows, packed as a whole
  std::int64_t depth_ = 0;                         // of a block
  std::int64_t round_depth_ = 0, width_ = 0;       // of what is packed of the right operand
  std::int64_t tile_rows_ = 0, tile_columns_ = 0;  // of a tile of a block's product
  std::int64_t row_tiles_ = 0, column_tiles_ = 0, slots_ = 0;
  // Of the whole, of a slot, and where in a slot its own sums begin.
  std::int64_t packed_bytes_ = 0, slot_bytes_ = 0, own_sums_ = 0;
};

}  // namespace plimsoll::kernels
