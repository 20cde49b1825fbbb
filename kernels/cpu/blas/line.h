// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "kernels/cpu/blas/matrix_view.h"

// Loops over vectors of a cache line are written once and compiled for several instruction sets
// (kernels/cpu/clones.h); the vectors are passed between inlined functions only.
#define PLIMSOLL_BLAS_INLINE inline __attribute__((always_inline))

namespace plimsoll::kernels::blas {

template <typename R>
struct LineOf {
  typedef R Type __attribute__((vector_size(64)));
};

// As many numbers as a cache line has real ones, real and imaginary parts apart.
template <typename T>
struct Line {
  using R = Real<T>;
  using V = typename LineOf<R>::Type;
  static constexpr int kNumbers = 64 / sizeof(R);
  V re, im;  // the latter of complex numbers alone

  PLIMSOLL_BLAS_INLINE void set(int i, T x) {
    if constexpr (kIsComplex<T>) {
      re[i] = x.real();
      im[i] = x.imag();
    } else {
      re[i] = x;
    }
  }
  PLIMSOLL_BLAS_INLINE T get(int i) const {
    if constexpr (kIsComplex<T>) return T(re[i], im[i]);
    return re[i];
  }
  PLIMSOLL_BLAS_INLINE void add(T factor, const Line& x) {
    if constexpr (kIsComplex<T>) {
      re += factor.real() * x.re - factor.imag() * x.im;
      im += factor.real() * x.im + factor.imag() * x.re;
    } else {
      re += factor * x.re;
    }
  }
  PLIMSOLL_BLAS_INLINE void subtract(T factor, const Line& x) {
    if constexpr (kIsComplex<T>) {
      re -= factor.real() * x.re - factor.imag() * x.im;
      im -= factor.real() * x.im + factor.imag() * x.re;
    } else {
      re -= factor * x.re;
    }
  }
  PLIMSOLL_BLAS_INLINE void multiply(T factor) {
    if constexpr (kIsComplex<T>) {
      const V real = factor.real() * re - factor.imag() * im;
      im = factor.real() * im + factor.imag() * re;
      re = real;
    } else {
      re *= factor;
    }
  }
};

}  // namespace plimsoll::kernels::blas
