// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_blocks.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/kernel_base.h"
#include "kernels/cpu/numeric.h"
#include "kernels/cpu/vector_loops.h"
#include "runtime/base/index.h"

namespace plimsoll::kernels {
namespace {

// Calls `f` with a value of one of the dtypes attention takes.
template <typename F>
void visit_float(ir::DType dtype, F&& f) {
  switch (dtype) {
    case ir::DType::bf16:
      return f(Bfloat16{});
    case ir::DType::f16:
      return f(Float16{});
    default:
      return f(float{});
  }
}

std::int64_t strided_offset(const std::vector<std::int64_t>& dims,
                            const std::vector<std::int64_t>& strides, std::int64_t index) {
  std::int64_t offset = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d] * strides[d];
    index /= dims[d];
  }
  return offset;
}

// to[r * to_row + c * to_column] = from[r * row + c * column].
template <typename To, typename From>
void copy_block(const From* from, std::int64_t row, std::int64_t column, To* to,
                std::int64_t to_row, std::int64_t to_column, std::int64_t rows,
                std::int64_t columns) {
  const auto value = [](From x) { return narrow<To>(widen<float>(x)); };
  if (column == 1 && to_column == 1) {
    for (std::int64_t r = 0; r < rows; ++r) {
      if constexpr (std::is_same_v<To, Bfloat16> && std::is_same_v<From, float>) {
        to_bf16(from + r * row, to + r * to_row, columns);
      } else if constexpr (std::is_same_v<From, Bfloat16> && std::is_same_v<To, float>) {
        from_bf16(from + r * row, to + r * to_row, columns);
      } else {
        for (std::int64_t c = 0; c < columns; ++c) to[r * to_row + c] = value(from[r * row + c]);
      }
    }
    return;
  }
  // Tiles keep both sides' lines in the first cache.
  constexpr std::int64_t kTile = 16;
  for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
    const std::int64_t end = std::min(columns, c0 + kTile);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = c0; c < end; ++c) {
        to[r * to_row + c * to_column] = value(from[r * row + c * column]);
      }
    }
  }
}

// to[c * stride + r] = from[r * row + c], whole vectors at a time.
template <typename From>
void read_columns(const From* from, std::int64_t row, float* to, std::int64_t stride,
                  std::int64_t rows, std::int64_t columns) {
  const std::int64_t whole_rows = rows / kLanes * kLanes, whole = columns / kLanes * kLanes;
  for (std::int64_t r = 0; r < whole_rows; r += kLanes) {
    for (std::int64_t c = 0; c < whole; c += kLanes) {
      const From* tile = from + r * row + c;
      if constexpr (std::is_same_v<From, float>) {
        attention_loops().transpose(tile, row, to + c * stride + r, stride);
      } else {
        float wide[kLanes * kLanes];
        copy_block(tile, row, 1, wide, kLanes, 1, kLanes, kLanes);
        attention_loops().transpose(wide, kLanes, to + c * stride + r, stride);
      }
    }
  }
  copy_block(from + whole, row, 1, to + whole * stride, 1, stride, whole_rows, columns - whole);
  copy_block(from + whole_rows * row, row, 1, to + whole_rows, 1, stride, rows - whole_rows,
             columns);
}

// to[r * row + c] = from[c * stride + r], likewise.
template <typename To>
void write_columns(const float* from, std::int64_t stride, To* to, std::int64_t row,
                   std::int64_t rows, std::int64_t columns) {
  const std::int64_t whole_rows = rows / kLanes * kLanes, whole = columns / kLanes * kLanes;
  for (std::int64_t r = 0; r < whole_rows; r += kLanes) {
    for (std::int64_t c = 0; c < whole; c += kLanes) {
      float tile[kLanes * kLanes];
      attention_loops().transpose(from + c * stride + r, stride, tile, kLanes);
      copy_block(tile, kLanes, 1, to + r * row + c, row, 1, kLanes, kLanes);
    }
  }
  copy_block(from + whole * stride, 1, stride, to + whole, row, 1, whole_rows, columns - whole);
  copy_block(from + whole_rows, 1, stride, to + whole_rows * row, row, 1, rows - whole_rows,
             columns);
}

}  // namespace

// Scratch memory per slot, and as many slots as the work is worth, by shapes alone: the workspace
// must be known when the plan is made, whatever number of threads will run it.
std::int64_t slots_for(const ir::AttentionSizes& sizes, std::int64_t heads, int products) {
  constexpr double kFlopsPerSlot = 4e6, kMaxSlots = 16;
  const double flops = 2.0 * products * static_cast<double>(heads) *
                       static_cast<double>(sizes.queries) * static_cast<double>(sizes.keys) *
                       static_cast<double>(std::max(sizes.depth, sizes.value_depth));
  return static_cast<std::int64_t>(std::clamp(flops / kFlopsPerSlot, 1.0, kMaxSlots));
}

HeadMatrices::HeadMatrices(const ir::Shape& shape, const ir::DimOrder& order)
    : dtype_(shape.dtype()) {
  const ir::Dims strides = ir::row_major_strides(shape.dims());
  const std::size_t batch = order.size() - 2;
  const auto at = [&](std::size_t i) { return static_cast<int>(order[i]); };
  for (std::size_t i = 0; i < batch; ++i) {
    batch_.push_back(shape.dim(at(i)));
    batch_strides_.push_back(strides[at(i)]);
  }
  row_stride_ = strides[at(batch)];
  column_stride_ = strides[at(batch + 1)];
  columns_ = shape.dim(at(batch + 1));
}

std::int64_t HeadMatrices::head_offset(std::int64_t head) const {
  return strided_offset(batch_, batch_strides_, head);
}

const void* HeadMatrices::address(const void* data, std::int64_t head, std::int64_t row) const {
  return byte_offset(data, (head_offset(head) + row * row_stride_) * ir::dtype_bytes(dtype_));
}

void HeadMatrices::read_rows(const void* data, std::int64_t head, std::int64_t row,
                             std::int64_t rows, float* to, std::int64_t stride) const {
  visit_float(dtype_, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(address(data, head, row));
    copy_block(from, row_stride_, column_stride_, to, stride, 1, rows, columns_);
  });
  if (columns_ == stride) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::fill(to + r * stride + columns_, to + (r + 1) * stride, 0.0f);
  }
}

void HeadMatrices::read_transposed(const void* data, std::int64_t head, std::int64_t row,
                                   std::int64_t rows, float* to, std::int64_t stride) const {
  visit_float(dtype_, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(address(data, head, row));
    if (column_stride_ == 1) return read_columns(from, row_stride_, to, stride, rows, columns_);
    copy_block(from, row_stride_, column_stride_, to, 1, stride, rows, columns_);
  });
  for (std::int64_t c = 0; c < columns_; ++c) {
    std::fill(to + c * stride + rows, to + (c + 1) * stride, 0.0f);
  }
}

void HeadMatrices::write_rows(const float* from, std::int64_t stride, void* data, std::int64_t head,
                              std::int64_t row, std::int64_t rows) const {
  visit_float(dtype_, [&](auto zero) {
    auto* to = static_cast<decltype(zero)*>(const_cast<void*>(address(data, head, row)));
    copy_block(from, stride, 1, to, row_stride_, column_stride_, rows, columns_);
  });
}

void HeadMatrices::write_transposed(const float* from, std::int64_t stride, void* data,
                                    std::int64_t head, std::int64_t row, std::int64_t rows) const {
  visit_float(dtype_, [&](auto zero) {
    auto* to = static_cast<decltype(zero)*>(const_cast<void*>(address(data, head, row)));
    if (column_stride_ == 1) return write_columns(from, stride, to, row_stride_, rows, columns_);
    copy_block(from, 1, stride, to, row_stride_, column_stride_, rows, columns_);
  });
}

StridedMatrix HeadMatrices::elements(const void* data, std::int64_t head, std::int64_t row,
                                     std::int64_t rows, float* copy, std::int64_t stride) const {
  if (dtype_ == ir::DType::f32) {
    return {static_cast<const float*>(address(data, head, row)), row_stride_, column_stride_};
  }
  read_rows(data, head, row, rows, copy, stride);
  return {copy, stride, 1};
}

ScoreRules::ScoreRules(const ir::AttentionForm& form, const ir::AttentionSizes& sizes,
                       const ir::Instruction& instruction)
    : form_(form), sizes_(sizes) {
  const auto read = [&](int operand, const std::vector<std::int64_t>& dims) {
    return extra(instruction.operand(operand)->shape(), operand, dims, sizes.batch.size());
  };
  if (form.bias.has_value()) bias_ = read(form.bias_operand(), *form.bias);
  if (form.mask.has_value()) mask_ = read(form.mask_operand(), *form.mask);
}

ScoreRules::Extra ScoreRules::extra(const ir::Shape& shape, int operand,
                                    const std::vector<std::int64_t>& dims, std::size_t batch) {
  Extra extra;
  extra.operand = operand;
  extra.dtype = shape.dtype();
  extra.batch_strides.assign(batch, 0);
  const ir::Dims strides = ir::row_major_strides(shape.dims());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto d = at(dims[i]);
    std::int64_t& to = d < batch    ? extra.batch_strides[d]
                       : d == batch ? extra.query_stride
                                    : extra.key_stride;
    to = strides[static_cast<int>(i)];
  }
  return extra;
}

std::int64_t ScoreRules::Extra::offset(const std::vector<std::int64_t>& batch,
                                       std::int64_t head) const {
  return strided_offset(batch, batch_strides, head);
}

void ScoreRules::apply(const ScoreBlock& block, const void* const* inputs) const {
  if (form_.scale != 1) {
    attention_loops().scale(block.scores, block.keys * block.columns, form_.scale);
  }
  if (bias_.operand >= 0) add_bias(block, inputs);
  fill_unseen(block, inputs, form_.fill);
}

void ScoreRules::add_bias(const ScoreBlock& block, const void* const* inputs) const {
  const std::int64_t at = bias_.offset(sizes_.batch, block.head) +
                          block.query * bias_.query_stride + block.key * bias_.key_stride;
  visit_float(bias_.dtype, [&](auto zero) {
    const auto* from = static_cast<const decltype(zero)*>(inputs[bias_.operand]) + at;
    for (std::int64_t k = 0; k < block.keys; ++k) {
      float* to = block.scores + k * block.columns;
      for (std::int64_t q = 0; q < block.queries; ++q) {
        to[q] += widen<float>(from[q * bias_.query_stride + k * bias_.key_stride]);
      }
    }
  });
}

void ScoreRules::fill_unseen(const ScoreBlock& block, const void* const* inputs,
                             float value) const {
  if (mask_.operand >= 0) {
    const auto* from = static_cast<const bool*>(inputs[mask_.operand]) +
                       mask_.offset(sizes_.batch, block.head) + block.query * mask_.query_stride +
                       block.key * mask_.key_stride;
    for (std::int64_t k = 0; k < block.keys; ++k) {
      float* to = block.scores + k * block.columns;
      for (std::int64_t q = 0; q < block.queries; ++q) {
        const bool seen = from[q * mask_.query_stride + k * mask_.key_stride];
        to[q] = seen ? to[q] : value;
      }
    }
  }
  if (!form_.causal.has_value()) return;
  for (std::int64_t k = 0; k < block.keys; ++k) {
    // The first query that sees this key.
    const std::int64_t first = block.key + k - *form_.causal - block.query;
    if (first <= 0) continue;
    float* to = block.scores + k * block.columns;
    std::fill(to, to + std::min(first, block.queries), value);
  }
}

std::int64_t ScoreRules::seen_blocks(std::int64_t query, std::int64_t queries) const {
  const std::int64_t all = block_count(sizes_.keys, kKeyBlock);
  if (!form_.causal.has_value()) return all;
  const std::int64_t keys =
      std::clamp<std::int64_t>(query + queries + *form_.causal, 0, sizes_.keys);
  return block_count(keys, kKeyBlock);
}

// Keys that no query of a block sees have the score `fill`. If every query's maximum is more than
// 87.3 above it, their powers are zero exactly, and leaving the blocks out changes no bit. A row
// that sees no key at all has `fill` itself as its maximum: there nothing may be skipped.
bool ScoreRules::skips_unseen(const float* greatest, std::int64_t queries) const {
  for (std::int64_t q = 0; q < queries; ++q) {
    if (!(form_.fill - greatest[q] < kZeroPower)) return false;
  }
  return true;
}

}  // namespace plimsoll::kernels
