// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "plimsoll/ops/elementwise.hpp"

namespace plimsoll {

// The entries of `x` along `axis` at the integer `indices`, whose dims take the place of that axis.
// Indices outside are clamped.
inline Tensor take(const Tensor& x, const Tensor& indices, std::int64_t axis = 0) {
  const std::int64_t from_front = x.normalize_axis(axis);
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&from_front, 1};
  return internal::record(PLM_OP_GATHER, {x.handle(), indices.handle()}, &a);
}

// `x` with `updates` (shaped like take(x, indices, axis)) added at the indices; those outside are
// dropped.
inline Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates,
                          std::int64_t axis = 0) {
  const std::int64_t from_front = x.normalize_axis(axis);
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&from_front, 1};
  a.reduction = PLM_REDUCE_SUM;
  return internal::record(PLM_OP_SCATTER, {x.handle(), indices.handle(), updates.handle()}, &a);
}

// 1 where the position along a new last dim of `classes` equals the index, else 0.
inline Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = DType::f32) {
  Dims dims(indices.dims().begin(), indices.dims().end());
  dims.push_back(classes);
  // Positions may be more than 8 or 16 bits can number.
  const bool narrow = indices.dtype() == DType::s8 || indices.dtype() == DType::u8 ||
                      indices.dtype() == DType::s16 || indices.dtype() == DType::u16;
  const Tensor numbers = narrow ? convert(indices, DType::s32) : indices;
  return convert(iota(dims, -1, numbers.dtype()) == expand_dim(numbers, -1), dtype);
}

// Values along `axis` in order; stable.
inline Tensor sort(const Tensor& x, std::int64_t axis = -1, bool descending = false) {
  const std::int64_t from_front = x.normalize_axis(axis);
  plm_op_attributes a = internal::attributes();
  a.dimensions = {&from_front, 1};
  a.descending = descending ? 1 : 0;
  return internal::record(PLM_OP_SORT, {x.handle()}, &a);
}

// u32 bits from the counter-based generator at a fresh state of the context: pure in that state, so
// they may be recomputed, and the same at every step of the same number.
inline Tensor random_bits(const Dims& dims) {
  plm_context* context = Context::current().handle();
  plm_tensor* state = nullptr;
  internal::check(plm_random_state(context, &state));
  const Tensor owned_state(state);
  plm_op_attributes a = internal::attributes();
  a.shape = internal::ints(dims);
  a.dtype = PLM_U32;
  a.use_dtype = 1;
  plm_tensor* out[2] = {nullptr, nullptr};
  const plm_tensor* operand = state;
  internal::check(plm_op(context, PLM_OP_RNG_BIT_GENERATOR, &operand, 1, &a, out, 2));
  const Tensor next_state(out[0]);
  return Tensor(out[1]);
}

}  // namespace plimsoll
