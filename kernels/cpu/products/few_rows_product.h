// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/packed_product.h"

namespace plimsoll::kernels {

// A product of few rows, m x k, and a matrix k x n: bound by reading that, which is not packed but
// read once, some rows or columns side by side, in long runs. The few rows are brought into order.
// Where the matrix' rows lie together sums of its columns stay in the first cache, and an element
// is the sum in the order of the depth; where its columns do they are multiplied by the rows,
// vector by vector, and an element is the sum of blocks of the depth, each added up lane by lane.
// So its bits depend on k, on how the matrix lies and on the loops only. Immutable; thread-safe.
template <typename T>
class FewRowsProduct {
 public:
  using Sum = ProductSum<T>;

  // m is at least 1 and at most loops.rows, k at least 1, n at least kDotsAtOnce.
  FewRowsProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                 const ProductLoops<T>& loops = few_rows_loops<T>());

  // Of `run`, a multiple of 64: the rows, in order. Threads take up to 32 KiB of their stacks.
  std::int64_t workspace_bytes() const;

  // `workspace` is aligned to 64 bytes.
  void run(const T* lhs, MatrixStrides lhs_strides, const T* rhs, MatrixStrides rhs_strides,
           const ProductResult<T>& out, void* workspace) const;

 private:
  void order_rows(const T* lhs, MatrixStrides strides, T* ordered) const;
  void multiply_rows(const T* packed, const T* rhs, std::int64_t rhs_stride, std::int64_t j0,
                     std::int64_t columns, const ProductResult<T>& out) const;
  void multiply_columns(const T* ordered, const T* rhs, std::int64_t rhs_stride, std::int64_t j0,
                        std::int64_t columns, const ProductResult<T>& out) const;
  void add_columns(const T* ordered, const T* columns, std::int64_t stride, std::int64_t k0,
                   std::int64_t depth, Sum* sums) const;
  void store(const Sum* sums, std::int64_t sums_stride, std::int64_t j0, std::int64_t columns,
             const ProductResult<T>& out) const;

  const ProductLoops<T>& loops_;
  std::int64_t m_, n_, k_;
  std::int64_t ordered_depth_;  // of the rows: whole steps and vectors
};

}  // namespace plimsoll::kernels
