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

// Some vectors of columns, whose sums stay in registers.
template <int kWide>
PLIMSOLL_INLINE void multiply_columns(const float* matrix, std::int64_t stride, const float* x,
                                      std::int64_t depth, float* to) {
  constexpr std::int64_t kAhead = 8;
  Floats sums[kWide] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    const float* const row = matrix + k * stride;
#pragma GCC unroll 8
    for (int v = 0; v < kWide; ++v) {
      if constexpr (kWide > 1) {
        if (k + kAhead < depth) __builtin_prefetch(row + kAhead * stride + v * kLanes);
      }
      sums[v] += x[k] * vector_at(row + v * kLanes);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kWide; ++v) *reinterpret_cast<Unaligned*>(to + v * kLanes) = sums[v];
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
  constexpr int kWide = 8;
  std::int64_t j = 0;
  for (; j + kWide * kLanes <= columns; j += kWide * kLanes) {
    multiply_columns<kWide>(matrix + j, stride, x, depth, to + j);
  }
  for (; j + kLanes <= columns; j += kLanes) {
    multiply_columns<1>(matrix + j, stride, x, depth, to + j);
  }
  if (j == columns) return;
  float sums[kLanes] = {};
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t i = 0; i < columns - j; ++i) sums[i] += x[k] * matrix[k * stride + j + i];
  }
  std::copy_n(sums, columns - j, to + j);
}

}  // namespace plimsoll::kernels
