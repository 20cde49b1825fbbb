// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/product.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/blas/line.h"
#include "kernels/cpu/clones.h"

namespace plimsoll::kernels::blas {
namespace {

// A tile of `c` is kRows x kColumns numbers; panels of `a` are kRows high, those of `b` kColumns
// wide, and both are packed so that the numbers of one k lie together, real parts first.
template <typename T>
struct Tiles {
  using R = Real<T>;
  using Vector = typename LineOf<R>::Type;
  static constexpr std::int64_t kParts = kIsComplex<T> ? 2 : 1;
  static constexpr std::int64_t kRows = 64 / sizeof(R);
  static constexpr std::int64_t kColumns = kIsComplex<T> ? 3 : 6;
  // Of a block: k, rows of `a`, columns of `b`.
  static constexpr std::int64_t kDepth = 128;
  static constexpr std::int64_t kBlockRows = (kIsComplex<T> ? 4 : 8) * kRows;
  static constexpr std::int64_t kBlockColumns = (kIsComplex<T> ? 48 : 96);
  static_assert(kBlockColumns % kColumns == 0);

  struct Packed {
    alignas(64) R a[kBlockRows * kDepth * kParts];
    alignas(64) R b[kBlockColumns * kDepth * kParts];
  };
};

template <typename T>
PLIMSOLL_BLAS_INLINE void split(T x, Real<T>* at, std::int64_t apart) {
  if constexpr (kIsComplex<T>) {
    at[0] = x.real();
    at[apart] = x.imag();
  } else {
    at[0] = x;
  }
}

// Panels of `width` numbers: rows of `from`, or the columns of what it is the transpose of.
template <typename T>
PLIMSOLL_BLAS_INLINE void pack(const MatrixView<const T>& from, std::int64_t width, Real<T>* to) {
  using R = Real<T>;
  const std::int64_t step = Tiles<T>::kParts * width;
  for (std::int64_t first = 0; first < from.rows; first += width) {
    const std::int64_t count = std::min(width, from.rows - first);
    if (count < width) std::fill_n(to, step * from.columns, R(0));
    if (!kIsComplex<T> && from.row_stride == 1) {
      for (std::int64_t p = 0; p < from.columns; ++p) {
        std::memcpy(to + p * step, from.data + from.offset(first, p),
                    static_cast<std::size_t>(count) * sizeof(R));
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t p = 0; p < from.columns; ++p) {
          split<T>(from.read(first + i, p), to + p * step + i, width);
        }
      }
    }
    to += step * from.columns;
  }
}

template <typename T>
struct Tile {
  using Vector = typename Tiles<T>::Vector;
  static constexpr std::int64_t kColumns = Tiles<T>::kColumns;
  Vector re[kColumns] = {}, im[kColumns] = {};

  PLIMSOLL_BLAS_INLINE void add(std::int64_t depth, const Real<T>* a, const Real<T>* b) {
    for (std::int64_t p = 0; p < depth; ++p) {
      Vector a_re;
      std::memcpy(&a_re, a, sizeof a_re);
      if constexpr (kIsComplex<T>) {
        Vector a_im;
        std::memcpy(&a_im, a + Tiles<T>::kRows, sizeof a_im);
        for (std::int64_t j = 0; j < kColumns; ++j) {
          re[j] += a_re * b[j];
          im[j] += a_re * b[kColumns + j];
          re[j] -= a_im * b[kColumns + j];
          im[j] += a_im * b[j];
        }
      } else {
        for (std::int64_t j = 0; j < kColumns; ++j) re[j] += a_re * b[j];
      }
      a += Tiles<T>::kRows * Tiles<T>::kParts;
      b += kColumns * Tiles<T>::kParts;
    }
  }
  PLIMSOLL_BLAS_INLINE void add_to(T alpha, const MatrixView<T>& c) const {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      if constexpr (!kIsComplex<T>) {
        if (c.row_stride == 1 && c.rows == Tiles<T>::kRows) {
          Vector x;
          std::memcpy(&x, &c.at(0, j), sizeof x);
          x += alpha * re[j];
          std::memcpy(&c.at(0, j), &x, sizeof x);
          continue;
        }
      }
      for (std::int64_t i = 0; i < c.rows; ++i) {
        if constexpr (kIsComplex<T>) {
          c.at(i, j) += alpha * T(re[j][i], im[j][i]);
        } else {
          c.at(i, j) += alpha * re[j][i];
        }
      }
    }
  }
};

// What is too thin for tiles: column by column of `a`.
template <typename T>
PLIMSOLL_BLAS_INLINE void add_thin(T alpha, const MatrixView<const T>& a,
                                   const MatrixView<const T>& b, const MatrixView<T>& c) {
  for (std::int64_t j = 0; j < c.columns; ++j) {
    for (std::int64_t p = 0; p < a.columns; ++p) {
      const T factor = alpha * b.read(p, j);
      if (a.row_stride == 1 && c.row_stride == 1 && !a.is_conjugate) {
        const T* __restrict from = a.data + a.offset(0, p);
        T* __restrict to = &c.at(0, j);
        for (std::int64_t i = 0; i < c.rows; ++i) to[i] += factor * from[i];
      } else {
        for (std::int64_t i = 0; i < c.rows; ++i) c.at(i, j) += factor * a.read(i, p);
      }
    }
  }
}

template <typename T>
PLIMSOLL_BLAS_INLINE void add_product(T alpha, const MatrixView<const T>& a,
                                      const MatrixView<const T>& b, const MatrixView<T>& c) {
  using Sizes = Tiles<T>;
  constexpr std::int64_t kThin = 16;
  if (c.columns * a.columns <= kThin) return add_thin(alpha, a, b, c);
  typename Sizes::Packed packed;
  const std::int64_t depth = a.columns;
  for (std::int64_t p = 0; p < depth; p += Sizes::kDepth) {
    const std::int64_t deep = std::min(Sizes::kDepth, depth - p);
    for (std::int64_t j = 0; j < c.columns; j += Sizes::kBlockColumns) {
      const std::int64_t wide = std::min(Sizes::kBlockColumns, c.columns - j);
      pack(b.block(p, j, deep, wide).transposed(), Sizes::kColumns, packed.b);
      for (std::int64_t i = 0; i < c.rows; i += Sizes::kBlockRows) {
        const std::int64_t high = std::min(Sizes::kBlockRows, c.rows - i);
        pack(a.block(i, p, high, deep), Sizes::kRows, packed.a);
        for (std::int64_t y = 0; y < wide; y += Sizes::kColumns) {
          for (std::int64_t x = 0; x < high; x += Sizes::kRows) {
            Tile<T> tile;
            tile.add(deep, packed.a + x * deep * Sizes::kParts,
                     packed.b + y * deep * Sizes::kParts);
            tile.add_to(alpha, c.block(i + x, j + y, std::min(Sizes::kRows, high - x),
                                       std::min(Sizes::kColumns, wide - y)));
          }
        }
      }
    }
  }
}

// Columns of `c` are contiguous where its rows or its columns are.
template <typename T, typename Add>
PLIMSOLL_BLAS_INLINE void add_upright(const MatrixView<const T>& a, const MatrixView<const T>& b,
                                      const MatrixView<T>& c, Add add) {
  if (c.rows == 0 || c.columns == 0 || a.columns == 0) return;
  if (c.row_stride != 1 && c.column_stride == 1) {
    add(b.transposed(), a.transposed(), c.transposed());
  } else {
    add(a, b, c);
  }
}

#define PLIMSOLL_PRODUCT(T)                                                                   \
  PLIMSOLL_CLONES void add_product_of(T alpha, const MatrixView<const T>& a,                  \
                                      const MatrixView<const T>& b, const MatrixView<T>& c) { \
    add_product<T>(alpha, a, b, c);                                                           \
  }
PLIMSOLL_PRODUCT(float)
PLIMSOLL_PRODUCT(double)
PLIMSOLL_PRODUCT(std::complex<float>)
PLIMSOLL_PRODUCT(std::complex<double>)
#undef PLIMSOLL_PRODUCT

template <typename T>
void add_any(T alpha, const MatrixView<const T>& a, const MatrixView<const T>& b,
             const MatrixView<T>& c) {
  if (alpha == T(0)) return;
  add_upright<T>(a, b, c, [&](const auto& left, const auto& right, const auto& sum) {
    add_product_of(alpha, left, right, sum);
  });
}

}  // namespace

void multiply_add(float alpha, const MatrixView<const float>& a, const MatrixView<const float>& b,
                  const MatrixView<float>& c) {
  add_any(alpha, a, b, c);
}
void multiply_add(double alpha, const MatrixView<const double>& a,
                  const MatrixView<const double>& b, const MatrixView<double>& c) {
  add_any(alpha, a, b, c);
}
void multiply_add(std::complex<float> alpha, const MatrixView<const std::complex<float>>& a,
                  const MatrixView<const std::complex<float>>& b,
                  const MatrixView<std::complex<float>>& c) {
  add_any(alpha, a, b, c);
}
void multiply_add(std::complex<double> alpha, const MatrixView<const std::complex<double>>& a,
                  const MatrixView<const std::complex<double>>& b,
                  const MatrixView<std::complex<double>>& c) {
  add_any(alpha, a, b, c);
}

}  // namespace plimsoll::kernels::blas
