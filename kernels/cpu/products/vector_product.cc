// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/vector_product.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/clones.h"

#define PLIMSOLL_INLINE inline __attribute__((always_inline))

namespace plimsoll::kernels {
namespace {

constexpr int kLanes = 16;
// What a row is summed in.
constexpr int kPartialSums = 64;
constexpr int kVectors = kPartialSums / kLanes;
// Rows whose sums are folded together.
constexpr int kRows = 16;

typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef float Unaligned __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

PLIMSOLL_INLINE const Unaligned& vector_at(const float* from) {
  return *reinterpret_cast<const Unaligned*>(from);
}

// Sixteen sums of one row: lane l has those over i mod 16 = l.
PLIMSOLL_INLINE Floats sums_of_row(const float* row, const float* x, std::int64_t count) {
  Floats sums[kVectors] = {};
  std::int64_t i = 0;
  for (; i + kPartialSums <= count; i += kPartialSums) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[v] += vector_at(row + i + v * kLanes) * vector_at(x + i + v * kLanes);
    }
  }
  if (i < count) {
    float* const lanes = reinterpret_cast<float*>(sums);
    for (int j = 0; i + j < count; ++j) lanes[j] += row[i + j] * x[i + j];
  }
  sums[0] += sums[2];
  sums[1] += sums[3];
  return sums[0] + sums[1];
}

// Of every 2 * kWidth lanes of a and of b the low or the high half.
template <int kWidth, bool kHigh, int... I>
PLIMSOLL_INLINE Floats halves(const Floats& a, const Floats& b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(
      a, b, ((2 * I - I % kWidth) % kLanes + (I < kLanes / 2 ? 0 : kLanes) + kHigh * kWidth)...);
}

// Lane l of every group of lanes added to lane l + kWidth, of a and b in one vector.
template <int kWidth>
PLIMSOLL_INLINE Floats fold(const Floats& a, const Floats& b) {
  constexpr std::make_integer_sequence<int, kLanes> kAll;
  return halves<kWidth, false>(a, b, kAll) + halves<kWidth, true>(a, b, kAll);
}

// Of several vectors the sum of each, pairwise, one after the other.
template <int kCount, int kWidth>
PLIMSOLL_INLINE Floats fold_all(const Floats* sums) {
  if constexpr (kCount == 1) {
    return sums[0];
  } else {
    Floats folded[kCount / 2];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) folded[i] = fold<kWidth>(sums[2 * i], sums[2 * i + 1]);
    return fold_all<kCount / 2, kWidth / 2>(folded);
  }
}

// Rows that are read side by side, and vectors of columns of which they are read: a page at a time
// of each, as the processor reads ahead, and few enough that it does.
constexpr int kSideBySide = 8;
constexpr int kWide = 4;
// Columns whose sums stay in the first cache while rows pass by.
constexpr std::int64_t kMostColumns = 2048;

// Some rows times their numbers of x, added to the sums of some vectors of columns.
template <int kRowCount, int kVectorCount>
PLIMSOLL_INLINE void add_rows(const float* matrix, std::int64_t stride, const float* x, float* to) {
  Floats sums[kVectorCount];
#pragma GCC unroll 4
  for (int v = 0; v < kVectorCount; ++v) sums[v] = vector_at(to + v * kLanes);
#pragma GCC unroll 8
  for (int r = 0; r < kRowCount; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectorCount; ++v) {
      sums[v] += x[r] * vector_at(matrix + r * stride + v * kLanes);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectorCount; ++v) {
    *reinterpret_cast<Unaligned*>(to + v * kLanes) = sums[v];
  }
}

// The same of all columns.
template <int kRowCount>
PLIMSOLL_INLINE void add_rows(const float* matrix, std::int64_t stride, std::int64_t columns,
                              const float* x, float* to) {
  std::int64_t j = 0;
  for (; j + kWide * kLanes <= columns; j += kWide * kLanes) {
    add_rows<kRowCount, kWide>(matrix + j, stride, x, to + j);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    add_rows<kRowCount, 1>(matrix + j, stride, x, to + j);
  }
  for (; j < columns; ++j) {
    for (int r = 0; r < kRowCount; ++r) to[j] += x[r] * matrix[r * stride + j];
  }
}

}  // namespace

PLIMSOLL_CLONES void multiply_rows_by_vector(const float* rows, std::int64_t stride,
                                             std::int64_t rows_count, const float* x,
                                             std::int64_t count, float* to) {
  for (std::int64_t r = 0; r < rows_count; r += kRows) {
    const std::int64_t some = std::min<std::int64_t>(kRows, rows_count - r);
    Floats sums[kRows];
    for (std::int64_t i = 0; i < some; ++i) {
      sums[i] = sums_of_row(rows + (r + i) * stride, x, count);
    }
    for (std::int64_t i = some; i < kRows; ++i) sums[i] = Floats{};
    const Floats folded = fold_all<kRows, kLanes / 2>(sums);
    if (some == kRows) {
      *reinterpret_cast<Unaligned*>(to + r) = folded;
    } else {
      for (std::int64_t i = 0; i < some; ++i) to[r + i] = folded[i];
    }
  }
}

PLIMSOLL_CLONES void multiply_vector_by_columns(const float* matrix, std::int64_t stride,
                                                std::int64_t columns, const float* x,
                                                std::int64_t depth, float* to) {
  std::fill_n(to, columns, 0.0f);
  for (std::int64_t j = 0; j < columns; j += kMostColumns) {
    const std::int64_t some = std::min(kMostColumns, columns - j);
    std::int64_t k = 0;
    for (; k + kSideBySide <= depth; k += kSideBySide) {
      add_rows<kSideBySide>(matrix + k * stride + j, stride, some, x + k, to + j);
    }
    for (; k < depth; ++k) add_rows<1>(matrix + k * stride + j, stride, some, x + k, to + j);
  }
}

}  // namespace plimsoll::kernels
