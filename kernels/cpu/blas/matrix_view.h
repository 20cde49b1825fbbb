// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

namespace plimsoll::kernels::blas {

template <typename T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <typename T>
struct RealOf {
  using Type = T;
};
template <typename R>
struct RealOf<std::complex<R>> {
  using Type = R;
};
template <typename T>
using Real = typename RealOf<T>::Type;

template <typename T>
T conjugate(T x) {
  if constexpr (kIsComplex<T>) return std::conj(x);
  return x;
}

// Element (i, j) of a matrix stands at data[i * row_stride + j * column_stride].
template <typename T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_stride = 1, column_stride = 0;
  // Only to be read, as its conjugate.
  bool is_conjugate = false;

  std::int64_t offset(std::int64_t i, std::int64_t j) const {
    return i * row_stride + j * column_stride;
  }
  T& at(std::int64_t i, std::int64_t j) const { return data[offset(i, j)]; }
  std::remove_const_t<T> read(std::int64_t i, std::int64_t j) const {
    const std::remove_const_t<T> x = data[offset(i, j)];
    return is_conjugate ? conjugate(x) : x;
  }
  MatrixView transposed() const {
    return {data, columns, rows, column_stride, row_stride, is_conjugate};
  }
  MatrixView conjugated() const {
    return {data, rows, columns, row_stride, column_stride, !is_conjugate};
  }
  MatrixView block(std::int64_t i, std::int64_t j, std::int64_t of_rows,
                   std::int64_t of_columns) const {
    return {data + offset(i, j), of_rows, of_columns, row_stride, column_stride, is_conjugate};
  }
  operator MatrixView<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {data, rows, columns, row_stride, column_stride, is_conjugate};
  }
};

}  // namespace plimsoll::kernels::blas
