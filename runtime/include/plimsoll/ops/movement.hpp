// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "plimsoll/ops/record.hpp"

// Operations that make values or move elements about. An axis below 0 counts from the end.
namespace plimsoll {

inline Tensor reshape(const Tensor& x, const Dims& dims) {
  // One dim may be -1: what is left over.
  Dims resolved = dims;
  const auto open = std::find(resolved.begin(), resolved.end(), std::int64_t{-1});
  if (open != resolved.end()) {
    std::int64_t known = 1;
    for (const std::int64_t dim : resolved) known *= dim == -1 ? 1 : dim;
    *open = known == 0 ? 0 : x.size() / known;
  }
  plm_op_attributes a = internal::attributes();
  a.shape = internal::ints(resolved);
  return internal::record(PLM_OP_RESHAPE, {x.handle()}, &a);
}

// The dims from `first_axis` on as one; `first_axis` may be x.rank(), for one more of size 1.
inline Tensor flatten(const Tensor& x, std::int64_t first_axis = 0) {
  const std::int64_t first = first_axis == x.rank() ? first_axis : x.normalize_axis(first_axis);
  Dims dims(x.dims().begin(), x.dims().begin() + first);
  dims.push_back(std::accumulate(x.dims().begin() + first, x.dims().end(), std::int64_t{1},
                                 std::multiplies<>()));
  return reshape(x, dims);
}

// Dim i of the result is dim permutation[i] of `x`.
inline Tensor permute(const Tensor& x, const Dims& permutation) {
  plm_op_attributes a = internal::attributes();
  const Dims axes = internal::normalize_axes(x, permutation);
  a.dimensions = internal::ints(axes);
  return internal::record(PLM_OP_TRANSPOSE, {x.handle()}, &a);
}

inline Tensor transpose(const Tensor& x, std::int64_t axis0 = -2, std::int64_t axis1 = -1) {
  Dims permutation(static_cast<std::size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), std::int64_t{0});
  std::swap(permutation[static_cast<std::size_t>(x.normalize_axis(axis0))],
            permutation[static_cast<std::size_t>(x.normalize_axis(axis1))]);
  return permute(x, permutation);
}

namespace internal {

// broadcast_to for `operation`, which an error names.
inline Tensor broadcast_for(const char* operation, const Tensor& x, const Dims& dims) {
  const std::span<const std::int64_t> from = x.dims();
  if (std::ranges::equal(from, dims)) return x;
  const std::size_t offset = dims.size() - std::min(dims.size(), from.size());
  Dims kept;
  Dims positions;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool fits = from.size() <= dims.size() && (from[i] == 1 || from[i] == dims[offset + i]);
    if (!fits) {
      std::string text;
      for (const std::int64_t dim : dims) text += (text.empty() ? "" : ",") + std::to_string(dim);
      throw Error(ErrorCode::invalid_argument, "[" + std::string(operation) + "] " +
                                                   x.shape_text() + " does not broadcast to [" +
                                                   text + "]");
    }
    if (from[i] == 1 && dims[offset + i] != 1) continue;
    kept.push_back(from[i]);
    positions.push_back(static_cast<std::int64_t>(offset + i));
  }
  const Tensor dense = kept.size() == from.size() ? x : reshape(x, kept);
  plm_op_attributes a = internal::attributes();
  a.shape = internal::ints(dims);
  a.dimensions = internal::ints(positions);
  return internal::record(PLM_OP_BROADCAST, {dense.handle()}, &a);
}

}  // namespace internal

// NumPy's rule: dims are aligned at the end, and those of size 1 are repeated.
inline Tensor broadcast_to(const Tensor& x, const Dims& dims) {
  return internal::broadcast_for("broadcast_to", x, dims);
}

inline Tensor full(const Dims& dims, double value, DType dtype = DType::f32) {
  return broadcast_to(Tensor::scalar(value, dtype), dims);
}
inline Tensor zeros(const Dims& dims, DType dtype = DType::f32) { return full(dims, 0, dtype); }
inline Tensor ones(const Dims& dims, DType dtype = DType::f32) { return full(dims, 1, dtype); }

// The number of each element's position along `axis`.
inline Tensor iota(const Dims& dims, std::int64_t axis, DType dtype = DType::s32) {
  plm_op_attributes a = internal::attributes();
  a.shape = internal::ints(dims);
  const std::int64_t from_front = axis < 0 ? axis + std::ssize(dims) : axis;
  a.dimensions = {&from_front, 1};
  a.dtype = static_cast<plm_dtype>(dtype);
  a.use_dtype = 1;
  return internal::record(PLM_OP_IOTA, std::span<const plm_tensor* const>(), &a,
                          Context::current().handle());
}

inline Tensor convert(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  plm_op_attributes a = internal::attributes();
  a.dtype = static_cast<plm_dtype>(dtype);
  a.use_dtype = 1;
  return internal::record(PLM_OP_CONVERT, {x.handle()}, &a);
}

// Elements from starts[i] to limits[i] (exclusive) in steps of strides[i] (empty: 1) of each dim.
inline Tensor slice(const Tensor& x, const Dims& starts, const Dims& limits,
                    const Dims& strides = {}) {
  plm_op_attributes a = internal::attributes();
  a.starts = internal::ints(starts);
  a.limits = internal::ints(limits);
  a.strides = internal::ints(strides);
  return internal::record(PLM_OP_SLICE, {x.handle()}, &a);
}

// Elements [start, limit) along one axis; below 0 both count from the end.
inline Tensor slice_axis(const Tensor& x, std::int64_t axis, std::int64_t start,
                         std::int64_t limit) {
  const auto at = static_cast<std::size_t>(x.normalize_axis(axis));
  Dims starts(static_cast<std::size_t>(x.rank()), 0);
  Dims limits(x.dims().begin(), x.dims().end());
  const std::int64_t size = limits[at];
  starts[at] = start < 0 ? start + size : start;
  limits[at] = limit < 0 ? limit + size : limit;
  return slice(x, starts, limits);
}

// `parts` equal pieces along `axis`.
inline std::vector<Tensor> split(const Tensor& x, std::int64_t parts, std::int64_t axis) {
  const std::int64_t size = x.dim(axis);
  if (parts <= 0 || size % parts != 0) {
    throw Error(ErrorCode::invalid_argument, "[split] axis " + std::to_string(axis) + " of " +
                                                 x.shape_text() + " into " + std::to_string(parts) +
                                                 " equal parts");
  }
  std::vector<Tensor> result;
  for (std::int64_t i = 0; i < parts; ++i) {
    result.push_back(slice_axis(x, axis, i * (size / parts), (i + 1) * (size / parts)));
  }
  return result;
}

inline Tensor concatenate(const std::vector<Tensor>& parts, std::int64_t axis) {
  if (parts.empty()) throw Error(ErrorCode::invalid_argument, "[concatenate] no operands");
  std::vector<const plm_tensor*> operands;
  for (const Tensor& part : parts) operands.push_back(part.handle());
  const std::int64_t from_front = parts[0].normalize_axis(axis);
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&from_front, 1};
  return internal::record(PLM_OP_CONCATENATE, operands, &a);
}

// Puts low[i] and high[i] copies of `value` before and after each dim.
inline Tensor pad(const Tensor& x, const Dims& low, const Dims& high, double value = 0) {
  plm_op_attributes a = internal::attributes();
  a.padding_low = internal::ints(low);
  a.padding_high = internal::ints(high);
  const Tensor filler = Tensor::scalar(value, x.dtype());
  return internal::record(PLM_OP_PAD, {x.handle(), filler.handle()}, &a);
}

// A dim of size 1 before `axis` (counted in the result).
inline Tensor expand_dim(const Tensor& x, std::int64_t axis) {
  Dims dims(x.dims().begin(), x.dims().end());
  const std::int64_t at = axis < 0 ? axis + x.rank() + 1 : axis;
  if (at < 0 || at > x.rank()) {
    throw Error(ErrorCode::out_of_range,
                "[expand_dim] axis " + std::to_string(axis) + " beside " + x.shape_text());
  }
  dims.insert(dims.begin() + at, 1);
  return reshape(x, dims);
}

// The value of `x`, through which no gradient flows.
inline Tensor stop_gradient(const Tensor& x) {
  plm_tensor* out = nullptr;
  plm_tensor* handle = x.require("stop_gradient");
  internal::check(plm_stop_gradient(plm_tensor_context(handle), handle, &out));
  return Tensor(out);
}

}  // namespace plimsoll
