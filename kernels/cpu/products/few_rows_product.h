// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/packed_product.h"

namespace plimsoll::kernels {

// A product of few rows, m x k, and a matrix k x n whose rows lie together: bound by reading that,
// which is not packed but read once, some rows side by side, in long runs, while the sums of its
// columns stay in the first cache. The few rows are packed. Every element is the sum in the order
// of the depth: its bits depend on k and the loops only. Immutable; thread-safe.
template <typename T>
class FewRowsProduct {
 public:
  using Sum = ProductSum<T>;

  // m is at least 1 and at most loops.rows, n and k at least 1.
  FewRowsProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                 const ProductLoops<T>& loops = product_loops<T>());

  // Of `run`, a multiple of 64: the rows, packed. Threads take up to 32 KiB of their stacks.
  std::int64_t workspace_bytes() const;

  // Rows of `rhs` are rhs_stride numbers apart. `workspace` is aligned to 64 bytes.
  void run(const ProductRows<T>& lhs, const T* rhs, std::int64_t rhs_stride,
           const ProductResult<T>& out, void* workspace) const;

 private:
  void multiply_columns(const T* packed, const T* rhs, std::int64_t rhs_stride, std::int64_t j0,
                        std::int64_t columns, const ProductResult<T>& out) const;

  const ProductLoops<T>& loops_;
  std::int64_t m_, n_, k_;
};

}  // namespace plimsoll::kernels
