// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/blas/matrix_view.h"

namespace plimsoll::kernels::blas {

// Which half of a square matrix counts, and whether its diagonal counts as ones.
struct Half {
  bool is_lower = true;
  bool is_unit = false;

  // Of the matrix's transpose.
  Half transposed() const { return {!is_lower, is_unit}; }
};

// In place, for T float, double and complex ones of both; `a` of n x n, `b` of n x m numbers.
// Halves are halved down to blocks of 32, the rest are products (Elmroth et al., Recursive blocked
// algorithms and hybrid data structures for dense matrix library software, 2004).

// b = a^-1 b. A zero on the diagonal gives what a division by it gives.
template <typename T>
void solve(Half half, const MatrixView<const T>& a, const MatrixView<T>& b);
// b = a b.
template <typename T>
void multiply(Half half, const MatrixView<const T>& a, const MatrixView<T>& b);
// The half of c that counts += alpha a b.
template <typename T>
void update(Half half, T alpha, const MatrixView<const T>& a, const MatrixView<const T>& b,
            const MatrixView<T>& c);
// The half of c that counts *= beta; zeros where that is zero.
template <typename T>
void scale_half(Half half, T beta, const MatrixView<T>& c);

}  // namespace plimsoll::kernels::blas
