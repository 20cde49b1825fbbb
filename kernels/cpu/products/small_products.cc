// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/small_products.h"

#include <utility>

#include "kernels/cpu/clones.h"

namespace plimsoll::kernels {
namespace {

#define PLIMSOLL_INLINE __attribute__((always_inline)) inline

// A product whose right matrix has kWidth columns side by side, of which `n` are stored.
template <int kWidth, typename T>
PLIMSOLL_INLINE void multiply_columns(std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                                      std::int64_t a_row, std::int64_t a_column, const T* b,
                                      std::int64_t b_row, T* out) {
  for (std::int64_t i = 0; i < m; ++i) {
    T sums[kWidth] = {};
    for (std::int64_t l = 0; l < k; ++l) {
      const T by = a[i * a_row + l * a_column];
      for (int j = 0; j < kWidth; ++j) sums[j] += by * b[l * b_row + j];
    }
    if (n == kWidth) {
      for (int j = 0; j < kWidth; ++j) out[i * n + j] = sums[j];
    } else {
      for (std::int64_t j = 0; j < n; ++j) out[i * n + j] = sums[j];
    }
  }
}

// Columns that do not lie side by side, or are fewer than a vector's lanes, are copied to where
// they do; the lanes beside them hold zeros.
template <int kWidth, typename T>
PLIMSOLL_INLINE void multiply_all(const SmallProducts& s, const T* a, const std::int64_t* a_at,
                                  const T* b, const std::int64_t* b_at, T* out,
                                  std::int64_t count) {
  alignas(64) T side_by_side[kMostOfSmall * kWidth] = {};
  const bool is_copied = s.b_column != 1 || s.n != kWidth;
  for (std::int64_t p = 0; p < count; ++p) {
    const T* right = b + b_at[p];
    std::int64_t row = s.b_row;
    if (is_copied) {
      for (std::int64_t l = 0; l < s.k; ++l) {
        for (std::int64_t j = 0; j < s.n; ++j) {
          side_by_side[l * kWidth + j] = right[l * s.b_row + j * s.b_column];
        }
      }
      right = side_by_side;
      row = kWidth;
    }
    multiply_columns<kWidth>(s.m, s.n, s.k, a + a_at[p], s.a_row, s.a_column, right, row,
                             out + p * s.m * s.n);
  }
}

// Of matrices and vectors of a few elements, which take longer to copy.
template <typename T>
PLIMSOLL_INLINE void multiply_few(const SmallProducts& s, const T* a, const std::int64_t* a_at,
                                  const T* b, const std::int64_t* b_at, T* out,
                                  std::int64_t count) {
  for (std::int64_t p = 0; p < count; ++p) {
    const T *const left = a + a_at[p], *const right = b + b_at[p];
    for (std::int64_t i = 0; i < s.m; ++i) {
      T sum{};
      for (std::int64_t l = 0; l < s.k; ++l) {
        sum += left[i * s.a_row + l * s.a_column] * right[l * s.b_row];
      }
      out[p * s.m + i] = sum;
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void multiply_by_width(SmallProducts s, const T* a, const std::int64_t* a_at,
                                       const T* b, const std::int64_t* b_at, T* out,
                                       std::int64_t count) {
  constexpr std::int64_t kFew = 32;
  if (s.n == 1 && s.m * s.k <= kFew) {
    multiply_few(s, a, a_at, b, b_at, out, count);
    return;
  }
  if (s.n == 1 && s.m > 1) {  // transposed, so that lanes are rows
    std::swap(a, b);
    std::swap(a_at, b_at);
    s = {1, s.m, s.k, 0, s.b_row, s.a_column, s.a_row};
  }
  if (s.n <= 4) {
    multiply_all<4>(s, a, a_at, b, b_at, out, count);
  } else if (s.n <= 8) {
    multiply_all<8>(s, a, a_at, b, b_at, out, count);
  } else {
    multiply_all<16>(s, a, a_at, b, b_at, out, count);
  }
}

#undef PLIMSOLL_INLINE

}  // namespace

PLIMSOLL_CLONES void multiply_small(const SmallProducts& shape, const float* a,
                                    const std::int64_t* a_at, const float* b,
                                    const std::int64_t* b_at, float* out, std::int64_t count) {
  multiply_by_width(shape, a, a_at, b, b_at, out, count);
}

PLIMSOLL_CLONES void multiply_small(const SmallProducts& shape, const double* a,
                                    const std::int64_t* a_at, const double* b,
                                    const std::int64_t* b_at, double* out, std::int64_t count) {
  multiply_by_width(shape, a, a_at, b, b_at, out, count);
}

PLIMSOLL_CLONES void multiply_small(const SmallProducts& shape, const std::uint32_t* a,
                                    const std::int64_t* a_at, const std::uint32_t* b,
                                    const std::int64_t* b_at, std::uint32_t* out,
                                    std::int64_t count) {
  multiply_by_width(shape, a, a_at, b, b_at, out, count);
}

PLIMSOLL_CLONES void multiply_small(const SmallProducts& shape, const std::uint64_t* a,
                                    const std::int64_t* a_at, const std::uint64_t* b,
                                    const std::int64_t* b_at, std::uint64_t* out,
                                    std::int64_t count) {
  multiply_by_width(shape, a, a_at, b, b_at, out, count);
}

}  // namespace plimsoll::kernels
