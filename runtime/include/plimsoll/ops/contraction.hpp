// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "plimsoll/ops/elementwise.hpp"

namespace plimsoll {

// General dot: sums over pairs of contracting dims, keeps pairs of batch dims first, then the other
// dims of `a`, then those of `b`.
inline Tensor dot_general(const Tensor& a, const Tensor& b, const Dims& a_contracting,
                          const Dims& b_contracting, const Dims& a_batch = {},
                          const Dims& b_batch = {}) {
  plm_op_attributes attributes = internal::attributes();
  attributes.lhs_contracting = internal::ints(a_contracting);
  attributes.rhs_contracting = internal::ints(b_contracting);
  attributes.lhs_batch = internal::ints(a_batch);
  attributes.rhs_batch = internal::ints(b_batch);
  return internal::record(PLM_OP_DOT, {a.handle(), b.handle()}, &attributes);
}

// The matrix product as NumPy's matmul: vectors, matrices, and stacks of matrices whose leading
// dims broadcast.
inline Tensor matmul(const Tensor& a, const Tensor& b) {
  a.require("matmul");
  b.require("matmul");
  if (a.rank() == 0 || b.rank() == 0) {
    throw Error(ErrorCode::invalid_argument,
                "[matmul] " + a.shape_text() + " by " + b.shape_text() + " (multiply numbers)");
  }
  const std::int64_t b_contracting = b.rank() == 1 ? 0 : b.rank() - 2;
  if (b.rank() <= 2) return dot_general(a, b, {a.rank() - 1}, {b_contracting});
  if (a.rank() == 1) {
    const Tensor product = matmul(reshape(a, {1, a.dim(0)}), b);
    Dims dims(product.dims().begin(), product.dims().end());
    dims.erase(dims.end() - 2);
    return reshape(product, dims);
  }
  const auto leading = [](const Tensor& x) { return Dims(x.dims().begin(), x.dims().end() - 2); };
  const Dims a_leading = leading(a);
  const Dims b_leading = leading(b);
  Dims batch(std::max(a_leading.size(), b_leading.size()), 1);
  std::copy_backward(a_leading.begin(), a_leading.end(), batch.end());
  for (std::size_t i = 0; i < b_leading.size(); ++i) {
    std::int64_t& dim = batch[batch.size() - b_leading.size() + i];
    if (dim == 1) dim = b_leading[i];
  }
  const auto expand = [&](const Tensor& x) {
    Dims dims = batch;
    dims.insert(dims.end(), x.dims().end() - 2, x.dims().end());
    return internal::broadcast_for("matmul", x, dims);
  };
  Dims batch_axes(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) batch_axes[i] = static_cast<std::int64_t>(i);
  const auto rank = static_cast<std::int64_t>(batch.size()) + 2;
  return dot_general(expand(a), expand(b), {rank - 1}, {rank - 2}, batch_axes, batch_axes);
}

struct Conv2dOptions {
  std::int64_t stride = 1;
  std::int64_t padding = 0;  // rows and columns of zeros on every side
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
};

// `x` is NHWC, `kernel` HWIO (I: input channels / groups); the result is NHWC.
inline Tensor conv2d(const Tensor& x, const Tensor& kernel, const Conv2dOptions& options = {}) {
  const std::int64_t strides[] = {options.stride, options.stride};
  const std::int64_t padding[] = {options.padding, options.padding};
  const std::int64_t dilation[] = {options.dilation, options.dilation};
  plm_op_attributes a = internal::attributes();
  a.window_strides = internal::ints(strides);
  a.padding_low = a.padding_high = internal::ints(padding);
  a.window_dilation = internal::ints(dilation);
  a.feature_group_count = options.groups;
  return internal::record(PLM_OP_CONVOLUTION, {x.handle(), kernel.handle()}, &a);
}

struct Pool2dOptions {
  std::int64_t size = 2;
  std::int64_t stride = 0;  // 0: the size
  std::int64_t padding = 0;
};

namespace internal {

inline Tensor record_pool2d(plm_reduction reduction, const Tensor& x,
                            const Pool2dOptions& options) {
  const std::int64_t stride = options.stride == 0 ? options.size : options.stride;
  const std::int64_t size[] = {1, options.size, options.size, 1};
  const std::int64_t strides[] = {1, stride, stride, 1};
  const std::int64_t padding[] = {0, options.padding, options.padding, 0};
  plm_op_attributes a = attributes();
  a.window_size = ints(size);
  a.window_strides = ints(strides);
  a.padding_low = a.padding_high = ints(padding);
  a.reduction = reduction;
  return record(PLM_OP_REDUCE_WINDOW, {x.handle()}, &a);
}

}  // namespace internal

// Greatest element of each window of an NHWC tensor; padding never wins.
inline Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options = {}) {
  return internal::record_pool2d(PLM_REDUCE_MAX, x, options);
}
// Mean of each window of an NHWC tensor; padding counts as zeros.
inline Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options = {}) {
  return internal::record_pool2d(PLM_REDUCE_SUM, x, options) /
         static_cast<double>(options.size * options.size);
}

}  // namespace plimsoll
