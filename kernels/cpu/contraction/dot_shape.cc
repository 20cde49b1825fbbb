// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/dot_shape.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace plimsoll::kernels {
namespace {

using Indices = std::vector<std::int64_t>;

std::int64_t product(const ir::Dims& dims, const Indices& which) {
  std::int64_t result = 1;
  for (const std::int64_t d : which) result *= dims[static_cast<int>(d)];
  return result;
}

// The one stride that walks `which`, major to minor; nothing when there is none. Dimensions of
// size 1 do not matter; with none left the stride is `when_empty`.
std::optional<std::int64_t> collapse(const ir::Dims& dims, const ir::Dims& strides,
                                     const Indices& which, std::int64_t when_empty) {
  std::int64_t stride = -1, reach = 0;
  for (auto it = which.rbegin(); it != which.rend(); ++it) {
    const int d = static_cast<int>(*it);
    if (dims[d] == 1) continue;
    if (stride < 0) {
      stride = strides[d];
    } else if (strides[d] != reach) {
      return std::nullopt;
    }
    reach = strides[d] * dims[d];
  }
  return stride < 0 ? when_empty : stride;
}

Indices other_dims(int rank, const Indices& a, const Indices& b) {
  Indices result;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (std::find(a.begin(), a.end(), d) == a.end() && std::find(b.begin(), b.end(), d) == b.end())
      result.push_back(d);
  }
  return result;
}

// `rows` and `columns` are lists of the operand's dimensions.
MatrixView view_of(const ir::Dims& dims, const Indices& batch, const Indices& rows,
                   const Indices& columns) {
  const ir::Dims strides = ir::row_major_strides(dims);
  const std::int64_t row_count = product(dims, rows), column_count = product(dims, columns);
  MatrixView view;
  const auto column_stride = collapse(dims, strides, columns, row_count == 1 ? 1 : 0);
  const auto row_stride = collapse(dims, strides, rows, 0);
  bool usable = column_stride.has_value() && row_stride.has_value();
  if (usable) {
    view.row_stride = *row_stride;
    view.column_stride = *column_stride;
    // A side of size 1 gets the stride of a dense matrix.
    if (row_count == 1 && column_count == 1) {
      view.row_stride = view.column_stride = 1;
    } else if (row_count == 1) {
      view.row_stride = view.column_stride == 1 ? column_count : 1;
    } else if (column_count == 1) {
      view.column_stride = view.row_stride == 1 ? row_count : 1;
    }
    usable = view.row_stride == 1 || view.column_stride == 1;
  }
  if (usable) {
    for (const std::int64_t d : batch) view.batch_strides.push_back(strides[static_cast<int>(d)]);
    return view;
  }
  view.needs_copy = true;
  view.row_stride = column_count;
  view.column_stride = 1;
  for (const Indices* list : {&batch, &rows, &columns}) {
    for (const std::int64_t d : *list) {
      view.source_dims.push_back(dims[static_cast<int>(d)]);
      view.source_strides.push_back(strides[static_cast<int>(d)]);
    }
  }
  std::int64_t stride = row_count * column_count;
  view.batch_strides.resize(batch.size());
  for (std::size_t i = batch.size(); i-- > 0;) {
    view.batch_strides[i] = stride;
    stride *= dims[static_cast<int>(batch[i])];
  }
  return view;
}

}  // namespace

std::int64_t DotShape::batch_offset(const MatrixView& view, std::int64_t index) const {
  std::int64_t offset = 0;
  for (std::size_t i = batch_dims.size(); i-- > 1;) {
    offset += index % batch_dims[i] * view.batch_strides[i];
    index /= batch_dims[i];
  }
  return batch_dims.empty() ? 0 : offset + index * view.batch_strides[0];
}

// A dot of any dims as batches of matrix products. Dims of an operand are of three kinds (batch,
// free, contracting); those of a kind are walked as one if one stride does so: strides 12, 4 with
// sizes 3, 3 do (12 = 3 * 4), with sizes 3, 2 they don't. If not, the operand is copied first.
//
// The contracting dims may be walked in any order, if both sides have the same. The order of the
// left operand's own dims makes the left one contiguous, the right one's order the right; where
// they disagree one side is copied: the smaller.
//
// Example: f32[8,16,32] and f32[32,16,64], contracting dims 1, 2 with 1, 0. In the left one's order
// (16, 32) the left is [8,512] as it lies; the right would be read with dim 1 outside dim 0, so it
// is copied (512 * 64 elements). In the right one's order (32, 16) the right is [512,64] as it
// lies, and the left is copied, 8 * 512 elements: this is chosen.
DotShape read_dot(const ir::Instruction& instruction) {
  const ir::DotDimensions none;
  const ir::DotDimensions& numbers =
      instruction.attributes().dot ? *instruction.attributes().dot : none;
  const ir::Dims& lhs = instruction.operand(0)->shape().dims();
  const ir::Dims& rhs = instruction.operand(1)->shape().dims();
  const Indices lhs_free = other_dims(lhs.size(), numbers.lhs_batch, numbers.lhs_contracting);
  const Indices rhs_free = other_dims(rhs.size(), numbers.rhs_batch, numbers.rhs_contracting);

  DotShape shape;
  for (const std::int64_t d : numbers.lhs_batch)
    shape.batch_dims.push_back(lhs[static_cast<int>(d)]);
  shape.batch = product(lhs, numbers.lhs_batch);
  shape.m = product(lhs, lhs_free);
  shape.n = product(rhs, rhs_free);
  shape.k = product(lhs, numbers.lhs_contracting);

  const auto build = [&](const std::vector<std::size_t>& order) {
    Indices left, right;
    for (const std::size_t i : order) {
      left.push_back(numbers.lhs_contracting[i]);
      right.push_back(numbers.rhs_contracting[i]);
    }
    shape.lhs = view_of(lhs, numbers.lhs_batch, lhs_free, left);
    shape.rhs = view_of(rhs, numbers.rhs_batch, right, rhs_free);
    return (shape.lhs.needs_copy ? shape.m * shape.k : 0) +
           (shape.rhs.needs_copy ? shape.n * shape.k : 0);
  };
  std::vector<std::size_t> by_lhs(numbers.lhs_contracting.size());
  std::iota(by_lhs.begin(), by_lhs.end(), std::size_t{0});
  std::vector<std::size_t> by_rhs = by_lhs;
  const auto order_by = [](std::vector<std::size_t>& order, const Indices& key) {
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return key[a] < key[b]; });
  };
  order_by(by_lhs, numbers.lhs_contracting);
  order_by(by_rhs, numbers.rhs_contracting);
  const std::int64_t with_lhs = build(by_lhs);
  if (with_lhs > 0 && by_rhs != by_lhs && build(by_rhs) > with_lhs) build(by_lhs);
  return shape;
}

}  // namespace plimsoll::kernels
