// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "plimsoll/ops/movement.hpp"

// Elementwise operations. Two operands are broadcast to each other by NumPy's rule; a plain number
// takes the dtype of the tensor beside it.
namespace plimsoll {

namespace internal {

inline Dims broadcast_dims(const Tensor& a, const Tensor& b) {
  const Tensor& longer = a.rank() >= b.rank() ? a : b;
  const Tensor& shorter = a.rank() >= b.rank() ? b : a;
  Dims dims(longer.dims().begin(), longer.dims().end());
  const std::size_t offset = dims.size() - shorter.dims().size();
  for (std::size_t i = 0; i < shorter.dims().size(); ++i) {
    // Sizes that disagree are left for broadcast_for to complain about.
    if (dims[offset + i] == 1) dims[offset + i] = shorter.dims()[i];
  }
  return dims;
}

inline Tensor record_broadcast(plm_opcode opcode, const Tensor& a, const Tensor& b,
                               const plm_op_attributes* attributes = nullptr) {
  a.require(plm_opcode_name(opcode));
  b.require(plm_opcode_name(opcode));
  if (a.rank() == 0 || b.rank() == 0 || std::ranges::equal(a.dims(), b.dims())) {
    return record(opcode, {a.handle(), b.handle()}, attributes);
  }
  const Dims dims = broadcast_dims(a, b);
  const char* const name = plm_opcode_name(opcode);
  return record(opcode,
                {broadcast_for(name, a, dims).handle(), broadcast_for(name, b, dims).handle()},
                attributes);
}

inline Tensor record_compare(plm_comparison comparison, const Tensor& a, const Tensor& b) {
  plm_op_attributes attributes = internal::attributes();
  attributes.comparison = comparison;
  return record_broadcast(PLM_OP_COMPARE, a, b, &attributes);
}

}  // namespace internal

// Of one tensor or two, as ops.def names them: exp(x), maximum(a, b).
#define PLIMSOLL_UNARY_OP(number, name, text, c_name, function, ...) \
  inline Tensor function(const Tensor& x) { return internal::record(c_name, {x.handle()}); }
#define PLIMSOLL_BINARY_OP(number, name, text, c_name, function, ...) \
  inline Tensor function(const Tensor& a, const Tensor& b) {          \
    return internal::record_broadcast(c_name, a, b);                  \
  }
#include "plimsoll/ops.def"

inline Tensor is_finite(const Tensor& x) {
  return internal::record(PLM_OP_IS_FINITE, {x.handle()});
}

inline Tensor equal(const Tensor& a, const Tensor& b) {
  return internal::record_compare(PLM_EQ, a, b);
}
inline Tensor not_equal(const Tensor& a, const Tensor& b) {
  return internal::record_compare(PLM_NE, a, b);
}
inline Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return internal::record_compare(PLM_GE, a, b);
}
inline Tensor greater(const Tensor& a, const Tensor& b) {
  return internal::record_compare(PLM_GT, a, b);
}
inline Tensor less_equal(const Tensor& a, const Tensor& b) {
  return internal::record_compare(PLM_LE, a, b);
}
inline Tensor less(const Tensor& a, const Tensor& b) {
  return internal::record_compare(PLM_LT, a, b);
}

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, double b) { return add(a, Tensor::scalar(b, a.dtype())); }
inline Tensor operator+(double a, const Tensor& b) { return add(Tensor::scalar(a, b.dtype()), b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator-(const Tensor& a, double b) {
  return subtract(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator-(double a, const Tensor& b) {
  return subtract(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator*(const Tensor& a, double b) {
  return multiply(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator*(double a, const Tensor& b) {
  return multiply(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }
inline Tensor operator/(const Tensor& a, double b) {
  return divide(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator/(double a, const Tensor& b) {
  return divide(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator==(const Tensor& a, const Tensor& b) { return equal(a, b); }
inline Tensor operator==(const Tensor& a, double b) {
  return equal(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator==(double a, const Tensor& b) {
  return equal(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
inline Tensor operator!=(const Tensor& a, double b) {
  return not_equal(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator!=(double a, const Tensor& b) {
  return not_equal(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return greater_equal(a, b); }
inline Tensor operator>=(const Tensor& a, double b) {
  return greater_equal(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator>=(double a, const Tensor& b) {
  return greater_equal(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator>(const Tensor& a, const Tensor& b) { return greater(a, b); }
inline Tensor operator>(const Tensor& a, double b) {
  return greater(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator>(double a, const Tensor& b) {
  return greater(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return less_equal(a, b); }
inline Tensor operator<=(const Tensor& a, double b) {
  return less_equal(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor operator<=(double a, const Tensor& b) {
  return less_equal(Tensor::scalar(a, b.dtype()), b);
}
inline Tensor operator<(const Tensor& a, const Tensor& b) { return less(a, b); }
inline Tensor operator<(const Tensor& a, double b) { return less(a, Tensor::scalar(b, a.dtype())); }
inline Tensor operator<(double a, const Tensor& b) { return less(Tensor::scalar(a, b.dtype()), b); }
inline Tensor operator-(const Tensor& x) { return negate(x); }

inline Tensor maximum(const Tensor& a, double b) {
  return maximum(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor minimum(const Tensor& a, double b) {
  return minimum(a, Tensor::scalar(b, a.dtype()));
}
inline Tensor power(const Tensor& a, double b) { return power(a, Tensor::scalar(b, a.dtype())); }
inline Tensor square(const Tensor& x) { return multiply(x, x); }

// `on_true` where the pred `condition` holds, else `on_false`; all three broadcast.
inline Tensor where(const Tensor& condition, const Tensor& on_true, const Tensor& on_false) {
  Dims dims = internal::broadcast_dims(on_true, on_false);
  if (condition.rank() != 0) {
    Dims both(std::max(dims.size(), condition.dims().size()), 1);
    std::copy_backward(dims.begin(), dims.end(), both.end());
    const std::size_t offset = both.size() - condition.dims().size();
    for (std::size_t i = 0; i < condition.dims().size(); ++i) {
      if (both[offset + i] == 1) both[offset + i] = condition.dims()[i];
    }
    dims = std::move(both);
  }
  return internal::record(PLM_OP_SELECT,
                          {internal::broadcast_for("where", condition, dims).handle(),
                           internal::broadcast_for("where", on_true, dims).handle(),
                           internal::broadcast_for("where", on_false, dims).handle()});
}
inline Tensor where(const Tensor& condition, const Tensor& on_true, double on_false) {
  return where(condition, on_true, Tensor::scalar(on_false, on_true.dtype()));
}
inline Tensor where(const Tensor& condition, double on_true, const Tensor& on_false) {
  return where(condition, Tensor::scalar(on_true, on_false.dtype()), on_false);
}

}  // namespace plimsoll
