// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cpu/attention/attention_bf16_loops.h"
#include "kernels/cpu/attention/attention_products.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t pair_count(std::int64_t size) { return (size + 1) / 2; }

constexpr std::uint32_t pair_of(std::uint16_t first, std::uint16_t second) {
  return first | static_cast<std::uint32_t>(second) << 16;
}

// A block of bf16 where it lies: row r from `data` + r * row, columns `column` apart.
struct Source {
  explicit Source(const MatrixBlock& block)
      : data(static_cast<const std::uint16_t*>(
            block.matrices.address(block.data, block.head, block.row))),
        row(block.matrices.row_stride()),
        column(block.matrices.column_stride()),
        rows(block.rows),
        columns(block.matrices.columns()) {}
  std::uint16_t at(std::int64_t r, std::int64_t c) const { return data[r * row + c * column]; }
  // Pairs along a row lie as they are wanted.
  bool has_pairs() const { return column == 1 && columns % 2 == 0; }
  // They also lie where 4-byte numbers may.
  bool has_aligned_pairs() const {
    return has_pairs() && row % 2 == 0 && std::bit_cast<std::uintptr_t>(data) % 4 == 0;
  }

  const std::uint16_t* data;
  std::int64_t row, column, rows, columns;
};

// Two neighbours of a row that may end after the first.
std::uint32_t pair_in_row(const Source& from, std::int64_t r, std::int64_t c) {
  return pair_of(from.at(r, c), c + 1 < from.columns ? from.at(r, c + 1) : std::uint16_t{0});
}

// to[k * stride + r]: pair k of row r, rows up to `stride` zero.
//
// The instruction multiplies pairs: c += a_2k * b_2k + a_2k+1 * b_2k+1. Both operands must
// therefore hold two neighbours along the contracted dim in 4 bytes. Where the contracted dim is a
// row's, pairs lie as they are; where it is a column's, two rows are interleaved. A last odd
// element is paired with zero, which adds nothing.
void transpose_pairs(const Source& from, std::uint32_t* to, std::int64_t stride) {
  const std::int64_t pairs = pair_count(from.columns);
  std::int64_t whole_rows = 0, whole_pairs = 0;
  if (from.has_aligned_pairs()) {
    whole_rows = from.rows / kLanes * kLanes;
    whole_pairs = pairs / kLanes * kLanes;
    // Only moved, so that a pair may pass for a float.
    const auto* floats = reinterpret_cast<const float*>(from.data);
    for (std::int64_t r = 0; r < whole_rows; r += kLanes) {
      for (std::int64_t k = 0; k < whole_pairs; k += kLanes) {
        attention_loops().transpose(floats + r * (from.row / 2) + k, from.row / 2,
                                    reinterpret_cast<float*>(to + k * stride + r), stride);
      }
    }
  }
  for (std::int64_t k = 0; k < pairs; ++k) {
    for (std::int64_t r = k < whole_pairs ? whole_rows : 0; r < from.rows; ++r) {
      to[k * stride + r] = pair_in_row(from, r, 2 * k);
    }
    std::fill(to + k * stride + from.rows, to + (k + 1) * stride, 0u);
  }
}

// to[k * stride + c]: column c of rows 2 k and 2 k + 1, columns up to `stride` zero.
void pair_rows(const Source& from, std::uint32_t* to, std::int64_t stride) {
  for (std::int64_t r = 0; r < from.rows; r += 2) {
    const bool is_alone = r + 1 == from.rows;
    if (from.column == 1) {
      const std::uint16_t* first = from.data + r * from.row;
      bf16_loops()->interleave(first, is_alone ? nullptr : first + from.row, to, from.columns);
    } else {
      for (std::int64_t c = 0; c < from.columns; ++c) {
        to[c] = pair_of(from.at(r, c), is_alone ? std::uint16_t{0} : from.at(r + 1, c));
      }
    }
    std::fill(to + from.columns, to + stride, 0u);
    to += stride;
  }
}

// to[k * columns + q]: queries' scores of keys 2 k and 2 k + 1.
void pair_keys(const ScoreBlock& block, std::uint32_t* to) {
  for (std::int64_t k = 0; k < block.keys; k += 2) {
    const float* first = block.scores + k * block.columns;
    bf16_loops()->narrow_pairs(first, k + 1 < block.keys ? first + block.columns : nullptr, to,
                               block.columns);
    to += block.columns;
  }
}

class Bf16Products final : public BlockProducts {
 public:
  std::int64_t left_floats(const HeadMatrices& matrices, std::int64_t rows,
                           Along along) const override {
    if (along == Along::rows) return pair_count(rows) * in_lanes(matrices.columns());
    const bool in_place = matrices.column_stride() == 1 && matrices.columns() % 2 == 0;
    return in_place ? 0 : rows * pair_count(matrices.columns());
  }

  LeftBlock left(const MatrixBlock& block, Along along, float* copy) const override {
    const Source from(block);
    auto* const to = reinterpret_cast<std::uint32_t*>(copy);
    if (along == Along::rows) {
      const std::int64_t stride = in_lanes(from.columns);
      pair_rows(from, to, stride);
      return {to, 2, 2 * stride};
    }
    if (from.has_pairs()) return {from.data, from.row, 2};
    const std::int64_t pairs = pair_count(from.columns);
    for (std::int64_t r = 0; r < from.rows; ++r) {
      for (std::int64_t k = 0; k < pairs; ++k) to[r * pairs + k] = pair_in_row(from, r, 2 * k);
    }
    return {to, 2 * pairs, 2};
  }

  std::int64_t right_floats(const HeadMatrices& matrices, std::int64_t rows,
                            Along along) const override {
    if (along == Along::columns) return pair_count(matrices.columns()) * in_lanes(rows);
    return pair_count(rows) * in_lanes(matrices.columns());
  }

  RightBlock right(const MatrixBlock& block, Along along, float* copy) const override {
    const Source from(block);
    auto* const to = reinterpret_cast<std::uint32_t*>(copy);
    const std::int64_t stride = in_lanes(along == Along::columns ? from.rows : from.columns);
    if (along == Along::columns) {
      transpose_pairs(from, to, stride);
    } else {
      pair_rows(from, to, stride);
    }
    return {to, stride};
  }

  std::int64_t score_floats() const override { return kKeyBlock * kQueryBlock / 2; }

  LeftBlock left_scores(const ScoreBlock& block, Over over, float* copy) const override {
    if (over == Over::keys) {
      pair_keys(block, reinterpret_cast<std::uint32_t*>(copy));
      return {copy, 2, 2 * block.columns};
    }
    auto* const to = reinterpret_cast<std::uint16_t*>(copy);
    bf16_loops()->narrow(block.scores, to, block.keys * block.columns);
    if (block.queries % 2 == 1) {
      // The last query's neighbour is no query.
      for (std::int64_t k = 0; k < block.keys; ++k) to[k * block.columns + block.queries] = 0;
    }
    return {to, block.columns, 2};
  }

  RightBlock right_scores(const ScoreBlock& block, float* copy) const override {
    pair_keys(block, reinterpret_cast<std::uint32_t*>(copy));
    return {copy, block.columns};
  }

  void multiply(float* c, std::int64_t c_stride, const LeftBlock& a, const RightBlock& b,
                std::int64_t rows, std::int64_t columns, std::int64_t depth,
                bool add) const override {
    bf16_loops()->multiply(c, c_stride, static_cast<const std::uint16_t*>(a.data), a.row, a.column,
                           static_cast<const std::uint32_t*>(b.data), b.stride, rows, columns,
                           pair_count(depth), add);
  }

  bool uses_tiles() const override { return bf16_loops()->uses_tiles; }
};

}  // namespace

const BlockProducts* bf16_products() {
  static const Bf16Products products;
  return bf16_loops() != nullptr ? &products : nullptr;
}

}  // namespace plimsoll::kernels
