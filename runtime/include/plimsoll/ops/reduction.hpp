// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plimsoll/ops/elementwise.hpp"

// Reductions over `axes` (empty: all of them), and what is made of them. With `keep_dims` the
// reduced dims stay with size 1.
namespace plimsoll {

namespace internal {

inline Tensor record_reduce(plm_reduction reduction, const Tensor& x, const Dims& axes,
                            bool keep_dims) {
  x.require("reduce");
  const Dims reduced = normalize_axes(x, axes);
  plm_op_attributes a = attributes();
  a.dimensions = ints(reduced);
  a.reduction = reduction;
  Tensor result = record(PLM_OP_REDUCE, {x.handle()}, &a);
  if (!keep_dims) return result;
  Dims dims(x.dims().begin(), x.dims().end());
  for (const std::int64_t axis : reduced) dims[static_cast<std::size_t>(axis)] = 1;
  return reshape(result, dims);
}

inline double element_count(const Tensor& x, const Dims& axes) {
  double count = 1;
  for (const std::int64_t axis : normalize_axes(x, axes)) count *= static_cast<double>(x.dim(axis));
  return count;
}

}  // namespace internal

inline Tensor sum(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return internal::record_reduce(PLM_REDUCE_SUM, x, axes, keep_dims);
}
inline Tensor prod(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return internal::record_reduce(PLM_REDUCE_PRODUCT, x, axes, keep_dims);
}
inline Tensor max(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return internal::record_reduce(PLM_REDUCE_MAX, x, axes, keep_dims);
}
inline Tensor min(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return internal::record_reduce(PLM_REDUCE_MIN, x, axes, keep_dims);
}
// Of pred tensors.
inline Tensor all(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return internal::record_reduce(PLM_REDUCE_AND, x, axes, keep_dims);
}
inline Tensor any(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return internal::record_reduce(PLM_REDUCE_OR, x, axes, keep_dims);
}

// f16 and bf16 are summed and divided in f32 and rounded once: their sums may be out of range.
inline Tensor mean(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  const double count = internal::element_count(x, axes);
  if (x.dtype() == DType::f16 || x.dtype() == DType::bf16) {
    return convert(sum(convert(x, DType::f32), axes, keep_dims) / count, x.dtype());
  }
  return sum(x, axes, keep_dims) / count;
}

// The mean square distance from the mean (divided by n, not n - 1).
inline Tensor variance(const Tensor& x, const Dims& axes = {}, bool keep_dims = false) {
  return mean(square(x - mean(x, axes, true)), axes, keep_dims);
}

// The index (s32) of the first greatest element along `axis`; of the first NaN where there is one.
inline Tensor argmax(const Tensor& x, std::int64_t axis) {
  const std::int64_t size = x.dim(axis);
  if (size == 0) {
    throw Error(ErrorCode::invalid_argument, "[argmax] " + x.shape_text() +
                                                 " has no elements along axis " +
                                                 std::to_string(x.normalize_axis(axis)));
  }
  Tensor greatest = x == max(x, {axis}, true);
  if (is_floating(x.dtype())) greatest = logical_or(greatest, x != x);
  const Tensor index = iota(Dims(x.dims().begin(), x.dims().end()), x.normalize_axis(axis));
  return min(where(greatest, index, static_cast<double>(size)), {axis});
}

inline Tensor softmax(const Tensor& x, std::int64_t axis = -1) {
  // Shifting by the maximum changes neither value nor gradient, but keeps exp in range.
  const Tensor powers = exp(x - stop_gradient(max(x, {axis}, true)));
  return powers / sum(powers, {axis}, true);
}

inline Tensor log_softmax(const Tensor& x, std::int64_t axis = -1) {
  const Tensor shifted = x - stop_gradient(max(x, {axis}, true));
  return shifted - log(sum(exp(shifted), {axis}, true));
}

}  // namespace plimsoll
