// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/float16.h"

namespace plimsoll::kernels {

// What is multiplied: float, double, integers that wrap (std::uint32_t, std::uint64_t), Bfloat16,
// whose products are added in f32, two steps of the depth at a time, or bytes, with or without
// signs, whose products are added in 32 bits that wrap, four steps at a time.
template <typename T>
struct ProductNumbers {
  using Sum = T;
  static constexpr std::int64_t kStep = 1;
};
template <>
struct ProductNumbers<Bfloat16> {
  using Sum = float;
  static constexpr std::int64_t kStep = 2;
};
template <>
struct ProductNumbers<std::uint8_t> {
  using Sum = std::uint32_t;
  static constexpr std::int64_t kStep = 4;
};
template <typename T>
using ProductSum = typename ProductNumbers<T>::Sum;

// Numbers that a row or column of a panel takes: those of whole steps.
template <typename T>
constexpr std::int64_t packed_depth(std::int64_t depth) {
  constexpr std::int64_t kStep = ProductNumbers<T>::kStep;
  return (depth + kStep - 1) / kStep * kStep;
}

// Where sums of products go, rows `stride` sums apart; with `add` they are added to what is there.
// If `narrowed` is not null it gets them instead, rounded (of bytes the low ones), and `sums` is
// only read, with `add`.
template <typename T>
struct ProductTile {
  ProductSum<T>* sums;
  std::int64_t stride;
  bool add;
  T* narrowed = nullptr;
  std::int64_t narrowed_stride = 0;
};

inline constexpr std::int64_t kStepsAtOnce = 8, kDotsAtOnce = 4;

// The inner loops of products of packed matrices for one instruction set. An operand is packed
// into panels of some rows (of the left one) or columns (of the right one): of every step of the
// depth the panel's numbers, side by side; where a step is several numbers these lie together, the
// last filled up with zeros. A product of two panels keeps its sums in registers. Every element is
// a sum in the order of the depth, whatever the panels are, by fused multiply-adds where the
// machine has them; of bf16 by what it does with a pair of products (AVX512_BF16), or with 16 pairs
// (AMX: of 32 steps of the depth those that are even and those that are odd are each added up in
// order, then both, and then to the sum before), which takes numbers below 2^-126 for zero.
// Thread-safe.
template <typename T>
struct ProductLoops {
  // Of a panel of the left operand; the last one may have any multiple of row_step.
  std::int64_t rows;
  std::int64_t columns;  // of a panel of the right operand

  // Element (i, d) of a panel is from[i * stride + d * depth_stride] for i < count, and zero up to
  // `width`, a multiple of 4; one of the strides is 1. Where a step is one number it goes to
  // to[d * width + i].
  void (*pack)(const T* from, std::int64_t stride, std::int64_t depth_stride, std::int64_t count,
               std::int64_t width, std::int64_t depth, T* to);
  // The same of rows[i][d] for i < width, a multiple of row_step, and whole steps; of tiles as
  // pack_left, and of whole rows of them, 64 bytes. Null of bytes by vectors.
  void (*pack_rows)(const T* const* rows, std::int64_t width, std::int64_t depth, T* to);
  // One panel of `rows` rows, padded to a multiple of row_step in `a`, by panels of `columns`
  // columns, padded in `b`.
  void (*multiply)(const T* a, const T* b, std::int64_t rows, std::int64_t columns,
                   std::int64_t depth, const ProductTile<T>& c);
  // The same by one panel of columns, of `columns` numbers a step of the depth: nothing is padded,
  // and as many numbers behind it are read as a full panel has more.
  void (*multiply_prepared)(const T* a, const T* b, std::int64_t rows, std::int64_t columns,
                            std::int64_t depth, const ProductTile<T>& c);
  // kStepsAtOnce of the depth of `rows` rows, as packed in `a`, by as many rows of a matrix that is
  // not packed, `b_stride` apart, added to sums, `sums_stride` apart: of `columns` columns, a
  // multiple of those of a panel.
  void (*add_steps)(const T* a, std::int64_t rows, const T* b, std::int64_t b_stride,
                    std::int64_t columns, ProductSum<T>* sums, std::int64_t sums_stride);
  // kDotsAtOnce columns, b_stride apart, by `rows` rows, a_stride apart: c[i][j], rows c_stride
  // apart, gets the sum of a[i][d] * b[j][d] over d < depth, a multiple of dot_depth, added. Rows
  // are read in fours. Sums of every lane of a vector, in the order of the depth, are added
  // pairwise.
  void (*add_dots)(const T* a, std::int64_t a_stride, std::int64_t rows, const T* b,
                   std::int64_t b_stride, std::int64_t depth, ProductSum<T>* c,
                   std::int64_t c_stride);
  std::int64_t dot_depth;

  // Of tiles in registers of their own (tile_registers.h), for which rows lie otherwise: a panel of
  // the left operand is packed by pack_left, if it is not null, in as many numbers, and `multiply`
  // and `multiply_prepared` want a TileScope. These loops have no add_steps and no add_dots.
  bool uses_tiles = false;
  std::int64_t row_step = 4;
  void (*pack_left)(const T* from, std::int64_t stride, std::int64_t depth_stride,
                    std::int64_t count, std::int64_t width, std::int64_t depth, T* to) = nullptr;
};

enum class ProductInstructions : std::uint8_t { baseline, avx2, avx512, amx };

// Null where this machine has no such instructions, or there are no loops for them (of Bfloat16
// there are for AVX512_BF16 and AMX alone, of bytes for AVX512_VNNI and AMX, of others none for
// AMX).
template <typename T>
const ProductLoops<T>* product_loops(ProductInstructions instructions);
// The fastest that this machine has; of Bfloat16 and of bytes only where it has some.
template <typename T>
const ProductLoops<T>& product_loops();
// The same of those that read a matrix as it lies.
template <typename T>
const ProductLoops<T>& few_rows_loops() {
  return product_loops<T>();
}
template <>
const ProductLoops<Bfloat16>& few_rows_loops<Bfloat16>();

// Loops for bytes, as operands have signs or have none; product_loops<std::uint8_t> are those
// without. AVX-512 stands for AVX512_VNNI; for less there are none, as blocks that are widened to
// f32 are as fast (contraction/dot_widened.h).
const ProductLoops<std::uint8_t>* byte_product_loops(bool lhs_has_sign, bool rhs_has_sign,
                                                     ProductInstructions instructions);
// The fastest, if there are any.
const ProductLoops<std::uint8_t>* byte_product_loops(bool lhs_has_sign, bool rhs_has_sign);

template <>
const ProductLoops<std::uint8_t>* product_loops<std::uint8_t>(ProductInstructions instructions);
template <>
const ProductLoops<std::uint8_t>& product_loops<std::uint8_t>();
template <>
const ProductLoops<Bfloat16>* product_loops<Bfloat16>(ProductInstructions instructions);
template <>
const ProductLoops<Bfloat16>& product_loops<Bfloat16>();

}  // namespace plimsoll::kernels
