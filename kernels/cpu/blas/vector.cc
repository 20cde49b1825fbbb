// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/vector.h"

#include <algorithm>
#include <complex>

#include "kernels/cpu/blas/line.h"
#include "kernels/cpu/clones.h"

namespace plimsoll::kernels::blas {
namespace {

// Numbers of a vector that are taken together, in order and side by side.
constexpr std::int64_t kChunk = 512;

template <typename T>
struct Chunk {
  T numbers[kChunk];

  PLIMSOLL_BLAS_INLINE void load(const VectorView<const T>& from, std::int64_t first,
                                 std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = from[first + i];
  }
};

template <typename T>
PLIMSOLL_BLAS_INLINE T conjugate_if(bool is_conjugate, T x) {
  return is_conjugate ? conjugate(x) : x;
}

// to += factor * from
template <typename T>
PLIMSOLL_BLAS_INLINE void add_scaled(T factor, const T* __restrict from, bool is_conjugate,
                                     std::int64_t count, T* __restrict to) {
  if (is_conjugate) {
    for (std::int64_t i = 0; i < count; ++i) to[i] += factor * conjugate(from[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
  }
}

// Sums by lines, which are added up at the end.
template <typename T>
PLIMSOLL_BLAS_INLINE T dot(const T* a, bool is_conjugate, const T* x, std::int64_t count) {
  T sum(0);
  if constexpr (kIsComplex<T>) {
    for (std::int64_t i = 0; i < count; ++i) sum += conjugate_if(is_conjugate, a[i]) * x[i];
  } else {
    using V = typename Line<T>::V;
    constexpr std::int64_t kNumbers = Line<T>::kNumbers;
    V even = {}, odd = {};
    std::int64_t i = 0;
    const auto add = [&](V& to, std::int64_t at) __attribute__((always_inline)) {
      V left, right;
      std::memcpy(&left, a + at, sizeof left);
      std::memcpy(&right, x + at, sizeof right);
      to += left * right;
    };
    for (; i + 2 * kNumbers <= count; i += 2 * kNumbers) {
      add(even, i);
      add(odd, i + kNumbers);
    }
    even += odd;
    for (int l = 0; l < kNumbers; ++l) sum += even[l];
    for (; i < count; ++i) sum += a[i] * x[i];
  }
  return sum;
}

template <typename T>
PLIMSOLL_BLAS_INLINE void multiply_vector(T alpha, const MatrixView<const T>& a, bool is_transposed,
                                          const VectorView<const T>& x, const VectorView<T>& y) {
  Chunk<T> chunk;
  for (std::int64_t first = 0; first < a.rows; first += kChunk) {
    const std::int64_t count = std::min(kChunk, a.rows - first);
    if (is_transposed) {
      chunk.load(x, first, count);
      for (std::int64_t j = 0; j < a.columns; ++j) {
        y[j] += alpha * dot(a.data + a.offset(first, j), a.is_conjugate, chunk.numbers, count);
      }
    } else {
      chunk.load({y.data, y.count, y.stride}, first, count);
      for (std::int64_t j = 0; j < a.columns; ++j) {
        add_scaled<T>(alpha * x[j], a.data + a.offset(first, j), a.is_conjugate, count,
                      chunk.numbers);
      }
      for (std::int64_t i = 0; i < count; ++i) y[first + i] = chunk.numbers[i];
    }
  }
}

template <typename T>
PLIMSOLL_BLAS_INLINE void add_outer_product(T alpha, const VectorView<const T>& x,
                                            const VectorView<const T>& y, const MatrixView<T>& a) {
  Chunk<T> chunk;
  for (std::int64_t first = 0; first < a.rows; first += kChunk) {
    const std::int64_t count = std::min(kChunk, a.rows - first);
    chunk.load(x, first, count);
    for (std::int64_t j = 0; j < a.columns; ++j) {
      add_scaled<T>(alpha * y[j], chunk.numbers, false, count, &a.at(first, j));
    }
  }
}

// Column by column, each of which is a row, too.
template <typename T>
PLIMSOLL_BLAS_INLINE void multiply_half(Half half, T alpha, const MatrixView<const T>& a,
                                        const VectorView<const T>& x, const VectorView<T>& y) {
  for (std::int64_t j = 0; j < a.columns; ++j) {
    const std::int64_t begin = half.is_lower ? j + 1 : 0, end = half.is_lower ? a.rows : j;
    const T factor = alpha * x[j];
    T sum(0);
    const T* const column = a.data + a.offset(0, j);
    if (x.stride == 1 && y.stride == 1) {
      add_scaled<T>(factor, column + begin, false, end - begin, y.data + begin);
      sum = dot(column + begin, true, x.data + begin, end - begin);
    } else {
      for (std::int64_t i = begin; i < end; ++i) {
        y[i] += factor * column[i];
        sum += conjugate(column[i]) * x[i];
      }
    }
    // The diagonal of a Hermitian matrix is real, whatever stands there.
    y[j] += factor * T(std::real(column[j])) + alpha * sum;
  }
}

#define PLIMSOLL_VECTOR(T)                                                                      \
  PLIMSOLL_CLONES void multiply_vector_of(T alpha, const MatrixView<const T>& a,                \
                                          bool is_transposed, const VectorView<const T>& x,     \
                                          const VectorView<T>& y) {                             \
    multiply_vector<T>(alpha, a, is_transposed, x, y);                                          \
  }                                                                                             \
  PLIMSOLL_CLONES void add_outer_of(T alpha, const VectorView<const T>& x,                      \
                                    const VectorView<const T>& y, const MatrixView<T>& a) {     \
    add_outer_product<T>(alpha, x, y, a);                                                       \
  }                                                                                             \
  PLIMSOLL_CLONES void multiply_half_of(Half half, T alpha, const MatrixView<const T>& a,       \
                                        const VectorView<const T>& x, const VectorView<T>& y) { \
    multiply_half<T>(half, alpha, a, x, y);                                                     \
  }
PLIMSOLL_VECTOR(float)
PLIMSOLL_VECTOR(double)
PLIMSOLL_VECTOR(std::complex<float>)
PLIMSOLL_VECTOR(std::complex<double>)
#undef PLIMSOLL_VECTOR

}  // namespace

template <typename T>
void multiply_add(T alpha, const MatrixView<const T>& a, bool is_transposed,
                  const VectorView<const T>& x, const VectorView<T>& y) {
  multiply_vector_of(alpha, a, is_transposed, x, y);
}

template <typename T>
void add_outer(T alpha, const VectorView<const T>& x, const VectorView<const T>& y,
               const MatrixView<T>& a) {
  add_outer_of(alpha, x, y, a);
}

template <typename T>
void multiply_symmetric(Half half, T alpha, const MatrixView<const T>& a,
                        const VectorView<const T>& x, const VectorView<T>& y) {
  multiply_half_of(half, alpha, a, x, y);
}

#define PLIMSOLL_VECTOR(T)                                                                    \
  template void multiply_add(T, const MatrixView<const T>&, bool, const VectorView<const T>&, \
                             const VectorView<T>&);                                           \
  template void add_outer(T, const VectorView<const T>&, const VectorView<const T>&,          \
                          const MatrixView<T>&);                                              \
  template void multiply_symmetric(Half, T, const MatrixView<const T>&,                       \
                                   const VectorView<const T>&, const VectorView<T>&);
PLIMSOLL_VECTOR(float)
PLIMSOLL_VECTOR(double)
PLIMSOLL_VECTOR(std::complex<float>)
PLIMSOLL_VECTOR(std::complex<double>)
#undef PLIMSOLL_VECTOR

}  // namespace plimsoll::kernels::blas
