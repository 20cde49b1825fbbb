// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/product_loops.h"

namespace plimsoll::kernels {

// Where element (i, j) of a matrix lies: at data[i * row + j * column], one of both being 1.
struct MatrixStrides {
  std::int64_t row = 0, column = 0;
};

// The left operand of a product: something that can pack some of its rows. Thread-safe.
template <typename T>
class ProductRows {
 public:
  virtual ~ProductRows() = default;
  // Packs elements (first + i, k0 + d), i < rows, d < depth, as ProductLoops do a panel of the left
  // operand, up to the next multiple of their row_step. k0 is of whole steps.
  virtual void pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
                    T* to) const = 0;
  // Brings a share, one of `parts`, of what the same `pack` reads into the cache; may do nothing.
  virtual void fetch(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int64_t) const {}
};

// Brings a share of the panel from[i * stride + d * depth_stride], i < count, into the cache.
template <typename T>
void fetch_panel(const T* from, std::int64_t stride, std::int64_t depth_stride, std::int64_t count,
                 std::int64_t depth, std::int64_t part, std::int64_t parts);

// A matrix in memory.
template <typename T>
class MatrixRows final : public ProductRows<T> {
 public:
  MatrixRows(const T* data, MatrixStrides strides,
             const ProductLoops<T>& loops = product_loops<T>())
      : data_(data), strides_(strides), loops_(loops) {}
  void pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
            T* to) const override;
  void fetch(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
             std::int64_t part, std::int64_t parts) const override;

 private:
  const T* data_;
  MatrixStrides strides_;
  const ProductLoops<T>& loops_;
};

}  // namespace plimsoll::kernels
