// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/products/product_loops.h"

namespace plimsoll::kernels {

// Where element (i, j) of a matrix of f32 lies: at data[i * row + j * column], one of both being 1.
struct MatrixStrides {
  std::int64_t row = 0, column = 0;
};

// The left operand of a product: something that can pack some of its rows. Thread-safe.
class ProductRows {
 public:
  virtual ~ProductRows() = default;
  // to[d * width + i] is element (first + i, k0 + d) for i < rows, and 0 up to `width`, the next
  // multiple of 4.
  virtual void pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
                    float* to) const = 0;
  // Brings a share, one of `parts`, of what the same `pack` reads into the cache; may do nothing.
  virtual void fetch(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int64_t) const {}
};

// Brings a share of the panel from[i * stride + d * depth_stride], i < count, into the cache.
void fetch_panel(const float* from, std::int64_t stride, std::int64_t depth_stride,
                 std::int64_t count, std::int64_t depth, std::int64_t part, std::int64_t parts);

// A matrix in memory.
class MatrixRows final : public ProductRows {
 public:
  MatrixRows(const float* data, MatrixStrides strides, const ProductLoops& loops = product_loops())
      : data_(data), strides_(strides), loops_(loops) {}
  void pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
            float* to) const override;
  void fetch(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
             std::int64_t part, std::int64_t parts) const override;

 private:
  const float* data_;
  MatrixStrides strides_;
  const ProductLoops& loops_;
};

}  // namespace plimsoll::kernels
