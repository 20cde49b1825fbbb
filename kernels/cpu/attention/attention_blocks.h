// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/attention/attention_loops.h"
#include "runtime/ir/fusions/attention.h"
#include "runtime/ir/shape.h"

// What both passes of attention need of arrays in memory: their blocks as f32, and what is to be
// done to a block of scores before softmax. Blocks of scores are [keys][columns], a column per
// query, so that softmax runs along vectors.
namespace plimsoll::kernels {

inline constexpr std::int64_t kQueryBlock = 64, kKeyBlock = 64;

constexpr std::int64_t block_count(std::int64_t size, std::int64_t block) {
  return (size + block - 1) / block;
}
constexpr std::int64_t in_lanes(std::int64_t size) { return block_count(size, kLanes) * kLanes; }

// Slots with scratch memory of their own that this many products of the scores' size are worth.
std::int64_t slots_for(const ir::AttentionSizes& sizes, std::int64_t heads, int products);

// An array as one matrix [rows, columns] per head, where it lies.
class HeadMatrices {
 public:
  HeadMatrices() = default;
  HeadMatrices(const ir::Shape& shape, const ir::DimOrder& order);

  ir::DType dtype() const { return dtype_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t row_stride() const { return row_stride_; }
  std::int64_t column_stride() const { return column_stride_; }
  // Rows are dense f32 whose length fills vectors: they can be used where they lie.
  bool has_plain_rows() const {
    return dtype_ == ir::DType::f32 && column_stride_ == 1 && columns_ % kLanes == 0;
  }

  // Elements before those of head `head` (row-major over the batch dims).
  std::int64_t head_offset(std::int64_t head) const;
  const void* address(const void* data, std::int64_t head, std::int64_t row) const;

  // to[r * stride + c], columns up to `stride` filled up with zeros.
  void read_rows(const void* data, std::int64_t head, std::int64_t row, std::int64_t rows,
                 float* to, std::int64_t stride) const;
  // to[c * stride + r], rows up to `stride` filled up with zeros.
  void read_transposed(const void* data, std::int64_t head, std::int64_t row, std::int64_t rows,
                       float* to, std::int64_t stride) const;
  void write_rows(const float* from, std::int64_t stride, void* data, std::int64_t head,
                  std::int64_t row, std::int64_t rows) const;
  void write_transposed(const float* from, std::int64_t stride, void* data, std::int64_t head,
                        std::int64_t row, std::int64_t rows) const;
  // Rows for single elements: in place where they are f32, else by way of `copy`, rows x stride.
  StridedMatrix elements(const void* data, std::int64_t head, std::int64_t row, std::int64_t rows,
                         float* copy, std::int64_t stride) const;

 private:
  ir::DType dtype_ = ir::DType::f32;
  std::int64_t columns_ = 0, row_stride_ = 0, column_stride_ = 0;
  std::vector<std::int64_t> batch_, batch_strides_;
};

// A block of scores of one head.
struct ScoreBlock {
  float* scores;  // [keys][columns]
  std::int64_t columns, head, query, queries, key, keys;
};

// What lies between q k^T and softmax: scale, bias, masks.
class ScoreRules {
 public:
  ScoreRules(const ir::AttentionForm& form, const ir::AttentionSizes& sizes,
             const ir::Instruction& instruction);

  // Products become scores.
  void apply(const ScoreBlock& block, const void* const* inputs) const;
  // Unseen keys get `value`.
  void fill_unseen(const ScoreBlock& block, const void* const* inputs, float value) const;

  // Blocks of keys that some of these queries see; the others count for nothing where
  // skips_unseen holds.
  std::int64_t seen_blocks(std::int64_t query, std::int64_t queries) const;
  // True when a power of `fill` is an exact zero beside these maxima.
  bool skips_unseen(const float* greatest, std::int64_t queries) const;

 private:
  struct Extra {
    int operand = -1;
    ir::DType dtype = ir::DType::f32;
    std::vector<std::int64_t> batch_strides;
    std::int64_t query_stride = 0, key_stride = 0;
    std::int64_t offset(const std::vector<std::int64_t>& batch, std::int64_t head) const;
  };
  static Extra extra(const ir::Shape& shape, int operand, const std::vector<std::int64_t>& dims,
                     std::size_t batch);
  void add_bias(const ScoreBlock& block, const void* const* inputs) const;

  const ir::AttentionForm form_;
  const ir::AttentionSizes sizes_;
  Extra bias_, mask_;
};

}  // namespace plimsoll::kernels
