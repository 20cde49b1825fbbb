// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/triangle.h"

#include <algorithm>
#include <complex>

#include "kernels/cpu/blas/line.h"
#include "kernels/cpu/blas/product.h"
#include "kernels/cpu/clones.h"

namespace plimsoll::kernels::blas {
namespace {

constexpr std::int64_t kSmall = 32;

// A small matrix's half, by rows. Of a diagonal that is divided by, complex numbers are inverted.
template <typename T>
struct SmallHalf {
  std::int64_t rows = 0;
  bool is_lower = true, is_unit = false;
  T at[kSmall][kSmall];
  T inverse[kSmall];

  PLIMSOLL_BLAS_INLINE SmallHalf(Half half, const MatrixView<const T>& a, bool divides)
      : rows(a.rows), is_lower(half.is_lower), is_unit(half.is_unit) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t begin = is_lower ? 0 : i, end = is_lower ? i + 1 : rows;
      for (std::int64_t j = begin; j < end; ++j) at[i][j] = a.read(i, j);
      if (kIsComplex<T> && divides && !is_unit) inverse[i] = T(1) / at[i][i];
    }
  }
  PLIMSOLL_BLAS_INLINE void solve(Line<T>* x) const {
    for (std::int64_t k = 0; k < rows; ++k) {
      const std::int64_t i = is_lower ? k : rows - 1 - k;
      const std::int64_t begin = is_lower ? 0 : i + 1, end = is_lower ? i : rows;
      for (std::int64_t j = begin; j < end; ++j) x[i].subtract(at[i][j], x[j]);
      if (is_unit) continue;
      if constexpr (kIsComplex<T>) {
        x[i].multiply(inverse[i]);
      } else {
        x[i].re /= at[i][i];
      }
    }
  }
  PLIMSOLL_BLAS_INLINE void multiply(Line<T>* x) const {
    for (std::int64_t k = 0; k < rows; ++k) {
      const std::int64_t i = is_lower ? rows - 1 - k : k;
      const std::int64_t begin = is_lower ? 0 : i + 1, end = is_lower ? i : rows;
      if (!is_unit) x[i].multiply(at[i][i]);
      for (std::int64_t j = begin; j < end; ++j) x[i].add(at[i][j], x[j]);
    }
  }
};

// What lines are too long for.
constexpr std::int64_t kTiny = 4;

template <typename T>
void solve_tiny(Half half, const MatrixView<const T>& a, const MatrixView<T>& b) {
  for (std::int64_t column = 0; column < b.columns; ++column) {
    for (std::int64_t k = 0; k < a.rows; ++k) {
      const std::int64_t i = half.is_lower ? k : a.rows - 1 - k;
      const std::int64_t begin = half.is_lower ? 0 : i + 1, end = half.is_lower ? i : a.rows;
      T x = b.at(i, column);
      for (std::int64_t j = begin; j < end; ++j) x -= a.read(i, j) * b.at(j, column);
      b.at(i, column) = half.is_unit ? x : x / a.read(i, i);
    }
  }
}

// `run` on the columns of b, as many at once as a line has.
template <typename T, typename Run>
PLIMSOLL_BLAS_INLINE void each_columns(const MatrixView<T>& b, Run run) {
  constexpr std::int64_t kWide = Line<T>::kNumbers;
  for (std::int64_t j = 0; j < b.columns; j += kWide) {
    const std::int64_t wide = std::min(kWide, b.columns - j);
    Line<T> x[kSmall];
    for (std::int64_t i = 0; i < b.rows; ++i) {
      x[i].re = x[i].im = typename Line<T>::V{};
      for (std::int64_t l = 0; l < wide; ++l) x[i].set(static_cast<int>(l), b.at(i, j + l));
    }
    run(x);
    for (std::int64_t i = 0; i < b.rows; ++i) {
      for (std::int64_t l = 0; l < wide; ++l) b.at(i, j + l) = x[i].get(static_cast<int>(l));
    }
  }
}

template <typename T>
PLIMSOLL_BLAS_INLINE void solve_small(Half half, const MatrixView<const T>& a,
                                      const MatrixView<T>& b) {
  const SmallHalf<T> small(half, a, true);
  each_columns(b, [&](Line<T>* x) __attribute__((always_inline)) { small.solve(x); });
}

template <typename T>
PLIMSOLL_BLAS_INLINE void multiply_small(Half half, const MatrixView<const T>& a,
                                         const MatrixView<T>& b) {
  const SmallHalf<T> small(half, a, false);
  each_columns(b, [&](Line<T>* x) __attribute__((always_inline)) { small.multiply(x); });
}

#define PLIMSOLL_SMALL(T)                                                         \
  PLIMSOLL_CLONES void solve_small_of(Half half, const MatrixView<const T>& a,    \
                                      const MatrixView<T>& b) {                   \
    solve_small<T>(half, a, b);                                                   \
  }                                                                               \
  PLIMSOLL_CLONES void multiply_small_of(Half half, const MatrixView<const T>& a, \
                                         const MatrixView<T>& b) {                \
    multiply_small<T>(half, a, b);                                                \
  }
PLIMSOLL_SMALL(float)
PLIMSOLL_SMALL(double)
PLIMSOLL_SMALL(std::complex<float>)
PLIMSOLL_SMALL(std::complex<double>)
#undef PLIMSOLL_SMALL

// Where a half is cut in two: after whole blocks.
std::int64_t middle_of(std::int64_t n) { return (n / 2 + kSmall - 1) / kSmall * kSmall; }

// The two smaller halves of one and the square beside them.
template <typename T>
struct Parts {
  MatrixView<T> first, second, beside;

  Parts(Half half, const MatrixView<T>& a) {
    const std::int64_t n = middle_of(a.rows), rest = a.rows - n;
    first = a.block(0, 0, n, n);
    second = a.block(n, n, rest, rest);
    beside = half.is_lower ? a.block(n, 0, rest, n) : a.block(0, n, n, rest);
  }
};

}  // namespace

template <typename T>
void solve(Half half, const MatrixView<const T>& a, const MatrixView<T>& b) {
  if (a.rows == 0 || b.columns == 0) return;
  if (a.rows <= kTiny) return solve_tiny<T>(half, a, b);
  if (a.rows <= kSmall) return solve_small_of(half, a, b);
  const Parts<const T> parts(half, a);
  const std::int64_t n = parts.first.rows;
  const MatrixView<T> top = b.block(0, 0, n, b.columns);
  const MatrixView<T> bottom = b.block(n, 0, b.rows - n, b.columns);
  if (half.is_lower) {
    solve<T>(half, parts.first, top);
    multiply_add(T(-1), parts.beside, top, bottom);
    solve<T>(half, parts.second, bottom);
  } else {
    solve<T>(half, parts.second, bottom);
    multiply_add(T(-1), parts.beside, bottom, top);
    solve<T>(half, parts.first, top);
  }
}

template <typename T>
void multiply(Half half, const MatrixView<const T>& a, const MatrixView<T>& b) {
  if (a.rows == 0 || b.columns == 0) return;
  if (a.rows <= kSmall) return multiply_small_of(half, a, b);
  const Parts<const T> parts(half, a);
  const std::int64_t n = parts.first.rows;
  const MatrixView<T> top = b.block(0, 0, n, b.columns);
  const MatrixView<T> bottom = b.block(n, 0, b.rows - n, b.columns);
  if (half.is_lower) {
    multiply<T>(half, parts.second, bottom);
    multiply_add(T(1), parts.beside, top, bottom);
    multiply<T>(half, parts.first, top);
  } else {
    multiply<T>(half, parts.first, top);
    multiply_add(T(1), parts.beside, bottom, top);
    multiply<T>(half, parts.second, bottom);
  }
}

template <typename T>
void update(Half half, T alpha, const MatrixView<const T>& a, const MatrixView<const T>& b,
            const MatrixView<T>& c) {
  if (c.rows == 0 || a.columns == 0) return;
  if (c.rows <= kTiny) {
    for (std::int64_t j = 0; j < c.rows; ++j) {
      const std::int64_t begin = half.is_lower ? j : 0, end = half.is_lower ? c.rows : j + 1;
      for (std::int64_t i = begin; i < end; ++i) {
        T sum(0);
        for (std::int64_t k = 0; k < a.columns; ++k) sum += a.read(i, k) * b.read(k, j);
        c.at(i, j) += alpha * sum;
      }
    }
    return;
  }
  if (c.rows <= kSmall) {
    T small[kSmall * kSmall];
    std::fill_n(small, c.rows * c.rows, T(0));
    const MatrixView<T> sum{small, c.rows, c.rows, 1, c.rows};
    multiply_add(alpha, a, b, sum);
    for (std::int64_t j = 0; j < c.rows; ++j) {
      const std::int64_t begin = half.is_lower ? j : 0, end = half.is_lower ? c.rows : j + 1;
      for (std::int64_t i = begin; i < end; ++i) c.at(i, j) += sum.at(i, j);
    }
    return;
  }
  const Parts<T> parts(half, c);
  const std::int64_t n = parts.first.rows, rest = c.rows - n, k = a.columns;
  const MatrixView<const T> top = a.block(0, 0, n, k), bottom = a.block(n, 0, rest, k);
  const MatrixView<const T> left = b.block(0, 0, k, n), right = b.block(0, n, k, rest);
  update<T>(half, alpha, top, left, parts.first);
  update<T>(half, alpha, bottom, right, parts.second);
  multiply_add(alpha, half.is_lower ? bottom : top, half.is_lower ? left : right, parts.beside);
}

template <typename T>
void scale_half(Half half, T beta, const MatrixView<T>& c) {
  for (std::int64_t j = 0; j < c.columns; ++j) {
    const std::int64_t begin = half.is_lower ? j : 0, end = half.is_lower ? c.rows : j + 1;
    scale(beta, c.block(begin, j, end - begin, 1));
  }
}

#define PLIMSOLL_TRIANGLE(T)                                                            \
  template void solve(Half, const MatrixView<const T>&, const MatrixView<T>&);          \
  template void multiply(Half, const MatrixView<const T>&, const MatrixView<T>&);       \
  template void update(Half, T, const MatrixView<const T>&, const MatrixView<const T>&, \
                       const MatrixView<T>&);                                           \
  template void scale_half(Half, T, const MatrixView<T>&);
PLIMSOLL_TRIANGLE(float)
PLIMSOLL_TRIANGLE(double)
PLIMSOLL_TRIANGLE(std::complex<float>)
PLIMSOLL_TRIANGLE(std::complex<double>)
#undef PLIMSOLL_TRIANGLE

}  // namespace plimsoll::kernels::blas
