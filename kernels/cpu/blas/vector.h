// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/blas/matrix_view.h"
#include "kernels/cpu/blas/triangle.h"

namespace plimsoll::kernels::blas {

// Number i stands at data[i * stride].
template <typename T>
struct VectorView {
  T* data = nullptr;
  std::int64_t count = 0, stride = 1;

  T& operator[](std::int64_t i) const { return data[i * stride]; }
  MatrixView<T> column() const { return {data, count, 1, stride, 0}; }
};

// For T float, double and complex ones of both; rounding as in multiply_add (product.h).

// y += alpha a x, or alpha a^T x, or with a's conjugate; `a` by columns.
template <typename T>
void multiply_add(T alpha, const MatrixView<const T>& a, bool is_transposed,
                  const VectorView<const T>& x, const VectorView<T>& y);
// a += alpha x y^T; `a` by columns.
template <typename T>
void add_outer(T alpha, const VectorView<const T>& x, const VectorView<const T>& y,
               const MatrixView<T>& a);
// y += alpha a x, of a symmetric, or where it is complex a Hermitian matrix of which one half is
// there, by columns.
template <typename T>
void multiply_symmetric(Half half, T alpha, const MatrixView<const T>& a,
                        const VectorView<const T>& x, const VectorView<T>& y);

}  // namespace plimsoll::kernels::blas
