// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/products/product_loops.h"
#include "kernels/cpu/products/product_rows.h"

namespace plimsoll::kernels {

// A PackedProduct whose right operand is always the same, such as a layer's weights: it is brought
// into panels once, and only rows of the left one are packed in a run. Elements have the bits of
// the PackedProduct of these sizes. Immutable; thread-safe.
class PreparedProduct {
 public:
  // Panels that are filled in part are read past their end, into others: there must be a full one.
  static constexpr std::int64_t kLeastColumns = 32;

  // m and k are at least 1, n at least kLeastColumns.
  PreparedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                  const ProductLoops& loops = product_loops());

  // Writes the n * k numbers of the right operand as `run` takes them: a panel after the other,
  // that which is not full first; of a panel every step of the depth.
  void prepare(const float* rhs, MatrixStrides strides, float* prepared) const;

  // Of `run`, a multiple of 64: at most an eighth of the bytes of operands and result, or 3/4 MiB.
  std::int64_t workspace_bytes() const { return packed_bytes_ + slots_ * slot_bytes_; }

  // Rows of `out` are out_stride elements apart. `workspace` is aligned to 64 bytes.
  void run(const ProductRows& lhs, const float* prepared, float* out, std::int64_t out_stride,
           void* workspace) const;

 private:
  struct Operands;

  void multiply_panels(const Operands& operands, const float* packed_rows, std::int64_t first_row,
                       std::int64_t rows, std::int64_t k0, std::int64_t depth,
                       std::int64_t first_panel, std::int64_t last_panel) const;
  void run_by_columns(const Operands& operands, float* packed) const;
  void run_by_rows(const Operands& operands, std::byte* slots) const;

  const ProductLoops& loops_;
  std::int64_t m_, n_, k_;
  std::int64_t depth_;            // of a block
  std::int64_t panels_, narrow_;  // columns of the first panel, if it is not full; else 0
  bool is_by_columns_ = false;    // all rows are packed first, and panels are dealt to tasks
  std::int64_t tile_rows_ = 0;    // else rows are
  std::int64_t slots_ = 1;
  std::int64_t packed_bytes_ = 0, slot_bytes_ = 0;
};

}  // namespace plimsoll::kernels
