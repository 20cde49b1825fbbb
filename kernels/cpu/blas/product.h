// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>

#include "kernels/cpu/blas/matrix_view.h"

namespace plimsoll::kernels::blas {

// c += alpha a b, where `a` is of m x k, `b` of k x n and `c` of m x n numbers and none of them
// overlaps `c`. Products and sums round one by one, in an order that the sizes alone decide, on
// every machine. On the calling thread, with some 160 KiB of its stack (after Goto and van de
// Geijn, Anatomy of high-performance matrix multiplication, 2008).
void multiply_add(float alpha, const MatrixView<const float>& a, const MatrixView<const float>& b,
                  const MatrixView<float>& c);
void multiply_add(double alpha, const MatrixView<const double>& a,
                  const MatrixView<const double>& b, const MatrixView<double>& c);
void multiply_add(std::complex<float> alpha, const MatrixView<const std::complex<float>>& a,
                  const MatrixView<const std::complex<float>>& b,
                  const MatrixView<std::complex<float>>& c);
void multiply_add(std::complex<double> alpha, const MatrixView<const std::complex<double>>& a,
                  const MatrixView<const std::complex<double>>& b,
                  const MatrixView<std::complex<double>>& c);

// c *= beta; zeros, whatever was there, where beta is zero.
template <typename T>
void scale(T beta, const MatrixView<T>& c) {
  if (beta == T(1)) return;
  for (std::int64_t j = 0; j < c.columns; ++j) {
    for (std::int64_t i = 0; i < c.rows; ++i) {
      T& x = c.at(i, j);
      x = beta == T(0) ? T(0) : beta * x;
    }
  }
}

}  // namespace plimsoll::kernels::blas
