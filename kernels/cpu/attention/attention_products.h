// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention_blocks.h"

// Products of blocks in the numbers that they are multiplied in: f32, or pairs of bf16 where the
// machine has products of those. Sums are f32 either way, in the order of the contracted dim.
namespace plimsoll::kernels {

// Rows of one head's matrix.
struct MatrixBlock {
  const HeadMatrices& matrices;
  const void* data;
  std::int64_t head, row, rows;
};

// The operand of which single elements (of pairs: two neighbours along the contracted dim) are
// read: element or pair k of row i is at data + i * row + k * column, in numbers of the format.
struct LeftBlock {
  const void* data;
  std::int64_t row, column;
};

// The operand of which whole vectors are read: row or pair of rows k is at data + k * stride, in
// units of 4 bytes, filled up with zeros to whole vectors.
struct RightBlock {
  const void* data;
  std::int64_t stride;
};

// The dim of a matrix that a product sums over.
enum class Along : std::uint8_t { columns, rows };
// The same of a block of scores.
enum class Over : std::uint8_t { keys, queries };

// How operands are brought into the format, and multiplied. What can be read where it lies is;
// the rest goes to `copy`, for which the caller keeps as many floats as the functions below say.
// Stateless; every thread may use one.
class BlockProducts {
 public:
  virtual ~BlockProducts() = default;

  virtual std::int64_t left_floats(const HeadMatrices& matrices, std::int64_t rows,
                                   Along along) const = 0;
  virtual LeftBlock left(const MatrixBlock& block, Along along, float* copy) const = 0;
  // A vector per row of the matrix (along columns: per column, `rows` filled up to vectors).
  virtual std::int64_t right_floats(const HeadMatrices& matrices, std::int64_t rows,
                                    Along along) const = 0;
  virtual RightBlock right(const MatrixBlock& block, Along along, float* copy) const = 0;

  // Of a block of scores, or of what has their form; `copy` holds score_floats().
  virtual std::int64_t score_floats() const = 0;
  virtual LeftBlock left_scores(const ScoreBlock& block, Over over, float* copy) const = 0;
  virtual RightBlock right_scores(const ScoreBlock& block, float* copy) const = 0;  // over keys

  // c[i][j] = (add ? c[i][j] : 0) + sum over k < depth of a(i, k) * b(k, j), for i < rows and
  // j < columns, a multiple of kLanes.
  virtual void multiply(float* c, std::int64_t c_stride, const LeftBlock& a, const RightBlock& b,
                        std::int64_t rows, std::int64_t columns, std::int64_t depth,
                        bool add) const = 0;
  // Whether `multiply` wants a TileScope (tile_registers.h).
  virtual bool uses_tiles() const { return false; }
};

const BlockProducts& f32_products();
// For operands that are all bf16: their products are exact; probabilities and gradients of scores
// are rounded to bf16 first, and numbers below 2^-126 count as zero. Null where the machine has no
// such products.
const BlockProducts* bf16_products();

}  // namespace plimsoll::kernels
