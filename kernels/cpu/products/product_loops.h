// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::kernels {

// The inner loops of products of packed f32 matrices for one instruction set. An operand is packed
// into panels of some rows (of the left one) or columns (of the right one): of every step of the
// depth the panel's numbers, side by side. A product of two panels keeps its sums in registers.
// Every element is a sum in the order of the depth, whatever the panels are, by fused multiply-adds
// where the machine has them. Thread-safe.
struct ProductLoops {
  std::int64_t rows;     // of a panel of the left operand; the last one may have any multiple of 4
  std::int64_t columns;  // of a panel of the right operand

  // to[d * width + i] = from[i * stride + d * depth_stride] for i < count, zeros up to `width`, a
  // multiple of 4; one of the strides is 1.
  void (*pack)(const float* from, std::int64_t stride, std::int64_t depth_stride,
               std::int64_t count, std::int64_t width, std::int64_t depth, float* to);
  // to[d * width + i] = rows[i][d] for i < width, a multiple of 4.
  void (*pack_rows)(const float* const* rows, std::int64_t width, std::int64_t depth, float* to);
  // c = a b, or c += a b with `add`: one panel of `rows` rows, padded to a multiple of 4 in `a`,
  // by panels of `columns` columns, padded in `b`; rows of c are c_stride apart.
  void (*multiply)(const float* a, const float* b, std::int64_t rows, std::int64_t columns,
                   std::int64_t depth, float* c, std::int64_t c_stride, bool add);
  // The same by one panel of columns, of `columns` numbers a step of the depth: nothing is padded,
  // and as many numbers behind it are read as a full panel has more.
  void (*multiply_prepared)(const float* a, const float* b, std::int64_t rows, std::int64_t columns,
                            std::int64_t depth, float* c, std::int64_t c_stride, bool add);
};

enum class ProductInstructions : std::uint8_t { baseline, avx2, avx512 };

// Null where this machine has no such instructions.
const ProductLoops* product_loops(ProductInstructions instructions);
// The widest that this machine has.
const ProductLoops& product_loops();

}  // namespace plimsoll::kernels
