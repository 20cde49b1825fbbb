// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/products/packed_product.h"

namespace plimsoll::kernels {

// A PackedProduct whose right operand is always the same, such as a layer's weights: it is brought
// into panels once, and only rows of the left one are packed in a run. Elements have the bits of
// the PackedProduct of these sizes. Immutable; thread-safe.
template <typename T>
class PreparedProduct {
 public:
  using Sum = ProductSum<T>;

  // Panels that are filled in part are read past their end, into others: there must be a full one.
  static constexpr std::int64_t kLeastColumns = 32;

  // m and k are at least 1, n at least kLeastColumns.
  PreparedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                  const ProductLoops<T>& loops = product_loops<T>());

  // Of the right operand as `run` takes it: the bytes of its numbers, with whole steps of the
  // depth.
  std::int64_t prepared_bytes() const {
    return n_ * packed_depth<T>(k_) * static_cast<std::int64_t>(sizeof(T));
  }
  // Writes the right operand as `run` takes it: a panel after the other, that which is not full
  // first; of a panel every step of the depth.
  void prepare(const T* rhs, MatrixStrides strides, T* prepared) const;

  // Of `run`, a multiple of 64: at most as much as PackedProduct may take.
  std::int64_t workspace_bytes() const { return packed_bytes_ + slots_ * slot_bytes_; }

  // `workspace` is aligned to 64 bytes.
  void run(const ProductRows<T>& lhs, const T* prepared, const ProductResult<T>& out,
           void* workspace) const;

 private:
  struct Block;
  static constexpr bool kNarrows = sizeof(T) < sizeof(Sum);

  void multiply_block(const Block& block, const T* prepared, const ProductResult<T>& out,
                      Sum* own) const;
  void run_by_columns(const ProductRows<T>& lhs, const T* prepared, const ProductResult<T>& out,
                      std::byte* workspace) const;
  void run_by_rows(const ProductRows<T>& lhs, const T* prepared, const ProductResult<T>& out,
                   std::byte* workspace) const;

  const ProductLoops<T>& loops_;
  std::int64_t m_, n_, k_;
  std::int64_t depth_;            // of a block
  std::int64_t panels_, narrow_;  // columns of the first panel, if it is not full; else 0
  bool is_by_columns_ = false;    // all rows are packed first, and panels are dealt to tasks
  std::int64_t tile_rows_ = 0;    // else rows are
  std::int64_t round_depth_ = 0;  // and so much of them is packed at a time
  std::int64_t slots_ = 1;
  // Of the whole, of a slot, and where in a slot its own sums begin.
  std::int64_t packed_bytes_ = 0, slot_bytes_ = 0, own_sums_ = 0;
};

}  // namespace plimsoll::kernels
