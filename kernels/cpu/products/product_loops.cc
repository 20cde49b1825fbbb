// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_loops.h"

#include <algorithm>
#include <type_traits>
#include <utility>

// Compiled with contraction: a * b + c on vectors is one rounding where the machine has it.
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

namespace plimsoll::kernels {
namespace {

template <int W>
struct Lanes {
  typedef float Floats __attribute__((vector_size(4 * W)));
  typedef float Unaligned __attribute__((vector_size(4 * W), aligned(4), may_alias));
};

template <int W>
PLIMSOLL_INLINE typename Lanes<W>::Floats load(const float* from) {
  return *reinterpret_cast<const typename Lanes<W>::Unaligned*>(from);
}
template <int W>
PLIMSOLL_INLINE void store(float* to, const typename Lanes<W>::Floats& x) {
  *reinterpret_cast<typename Lanes<W>::Unaligned*>(to) = x;
}

// kWidth numbers that lie together, of every step of the depth.
template <int kWidth>
PLIMSOLL_INLINE void pack_runs(const float* from, std::int64_t depth_stride, std::int64_t depth,
                               float* to) {
  constexpr int kVector = kWidth % 16 == 0 ? 16 : kWidth % 8 == 0 ? 8 : 4;
  for (std::int64_t d = 0; d < depth; ++d) {
#pragma GCC unroll 8
    for (int i = 0; i < kWidth; i += kVector) store<kVector>(to + i, load<kVector>(from + i));
    from += depth_stride;
    to += kWidth;
  }
}

// The low or high halves of every four numbers of a and b, one of a and one of b in turns, and the
// low or high pairs.
template <int W, int kHigh, int... I>
PLIMSOLL_INLINE auto zip(const typename Lanes<W>::Floats& a, const typename Lanes<W>::Floats& b,
                         std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 4 / 2 + 2 * kHigh + (I % 2) * W)...);
}
template <int W, int kHigh, int... I>
PLIMSOLL_INLINE auto pair_up(const typename Lanes<W>::Floats& a, const typename Lanes<W>::Floats& b,
                             std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 + 2 * kHigh + I % 4 / 2 * W)...);
}
template <int W, int kPart, int... I>
PLIMSOLL_INLINE Lanes<4>::Floats four_of(const typename Lanes<W>::Floats& a,
                                         std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, a, (4 * kPart + I)...);
}

// Four rows over W steps of the depth, by squares of 4 x 4 that are turned in registers.
template <int W, int... kPart>
PLIMSOLL_INLINE void turn_four_rows(const float* const (&rows)[4], std::int64_t d,
                                    std::int64_t width, float* to,
                                    std::integer_sequence<int, kPart...>) {
  using Vector = typename Lanes<W>::Floats;
  constexpr auto kLanes = std::make_integer_sequence<int, W>();
  constexpr auto kFour = std::make_integer_sequence<int, 4>();
  const Vector a = load<W>(rows[0] + d), b = load<W>(rows[1] + d);
  const Vector c = load<W>(rows[2] + d), e = load<W>(rows[3] + d);
  const Vector ab[] = {zip<W, 0>(a, b, kLanes), zip<W, 1>(a, b, kLanes)};
  const Vector ce[] = {zip<W, 0>(c, e, kLanes), zip<W, 1>(c, e, kLanes)};
  const Vector turned[] = {pair_up<W, 0>(ab[0], ce[0], kLanes), pair_up<W, 1>(ab[0], ce[0], kLanes),
                           pair_up<W, 0>(ab[1], ce[1], kLanes),
                           pair_up<W, 1>(ab[1], ce[1], kLanes)};
  const auto store_part =
      [&]<int kWhich>(std::integral_constant<int, kWhich>) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          store<4>(to + (4 * kWhich + q) * width, four_of<W, kWhich>(turned[q], kFour));
        }
      };
  (store_part(std::integral_constant<int, kPart>()), ...);
}

template <int W>
PLIMSOLL_INLINE void pack_four_rows(const float* const (&rows)[4], std::int64_t width,
                                    std::int64_t depth, float* to) {
  constexpr auto kParts = std::make_integer_sequence<int, W / 4>();
  std::int64_t d = 0;
  for (; d + W <= depth; d += W) {
    turn_four_rows<W>(rows, d, width, to, kParts);
    to += W * width;
  }
  for (; d < depth; ++d) {
    for (int i = 0; i < 4; ++i) to[i] = rows[i][d];
    to += width;
  }
}

template <int W, int kRows, int kColumns>
PLIMSOLL_INLINE void pack(const float* from, std::int64_t stride, std::int64_t depth_stride,
                          std::int64_t count, std::int64_t width, std::int64_t depth, float* to) {
  if (stride == 1 && count == width) {
    if (width == kColumns) return pack_runs<kColumns>(from, depth_stride, depth, to);
    if (width == kRows) return pack_runs<kRows>(from, depth_stride, depth, to);
  }
  if (depth_stride == 1) {
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      const float* const first = from + i * stride;
      pack_four_rows<W>({first, first + stride, first + 2 * stride, first + 3 * stride}, width,
                        depth, to + i);
    }
    if (i == width) return;
    for (std::int64_t d = 0; d < depth; ++d) {
      for (std::int64_t j = i; j < width; ++j) {
        to[d * width + j] = j < count ? from[j * stride + d] : 0.0f;
      }
    }
    return;
  }
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t i = 0; i < width; ++i) {
      to[d * width + i] = i < count ? from[i * stride + d * depth_stride] : 0.0f;
    }
  }
}

template <int W>
PLIMSOLL_INLINE void pack_rows(const float* const* rows, std::int64_t width, std::int64_t depth,
                               float* to) {
  for (std::int64_t i = 0; i < width; i += 4) {
    pack_four_rows<W>({rows[i], rows[i + 1], rows[i + 2], rows[i + 3]}, width, depth, to + i);
  }
}

// A tile of c in registers over the whole depth, whose steps are b_step numbers apart in b.
template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_tile(const float* a, const float* b, std::int64_t b_step,
                                   std::int64_t depth, float* c, std::int64_t c_stride, bool add) {
  // The place of the result is asked for before it is needed.
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    __builtin_prefetch(c + i * c_stride, 1);
    if constexpr (kVectors * W > 16) __builtin_prefetch(c + i * c_stride + kVectors * W - 1, 1);
  }
  typename Lanes<W>::Floats sums[kRows][kVectors] = {};
  for (std::int64_t d = 0; d < depth; ++d) {
    typename Lanes<W>::Floats row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load<W>(b + v * W);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = a[i] * row[v] + sums[i][v];
    }
    a += kRows;
    b += b_step;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + i * c_stride + v * W;
      store<W>(to, add ? load<W>(to) + sums[i][v] : sums[i][v]);
    }
  }
}

// A tile of which only some rows and columns are there: what is more is computed, and left out.
template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_edge(const float* a, const float* b, std::int64_t b_step,
                                   std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                   float* c, std::int64_t c_stride, bool add) {
  constexpr std::int64_t kColumns = kVectors * W;
  float tile[kRows * kColumns];
  multiply_tile<W, kRows, kVectors>(a, b, b_step, depth, tile, kColumns, false);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const to = c + i * c_stride;
    for (std::int64_t q = 0; q < columns; ++q) {
      to[q] = add ? to[q] + tile[i * kColumns + q] : tile[i * kColumns + q];
    }
  }
}

template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_panels(const float* a, const float* b, std::int64_t rows,
                                     std::int64_t columns, std::int64_t depth, float* c,
                                     std::int64_t c_stride, bool add) {
  constexpr std::int64_t kColumns = kVectors * W;
  for (std::int64_t j = 0; j < columns; j += kColumns) {
    const float* const panel = b + j * depth;
    if (rows == kRows && columns - j >= kColumns) {
      multiply_tile<W, kRows, kVectors>(a, panel, kColumns, depth, c + j, c_stride, add);
      continue;
    }
    multiply_edge<W, kRows, kVectors>(a, panel, kColumns, rows, std::min(kColumns, columns - j),
                                      depth, c + j, c_stride, add);
  }
}

template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply(const float* a, const float* b, std::int64_t rows,
                              std::int64_t columns, std::int64_t depth, float* c,
                              std::int64_t c_stride, bool add) {
  if constexpr (kRows > 8) {
    if (rows > 8)
      return multiply_panels<W, kRows, kVectors>(a, b, rows, columns, depth, c, c_stride, add);
  }
  if constexpr (kRows > 4) {
    if (rows > 4)
      return multiply_panels<W, 8, kVectors>(a, b, rows, columns, depth, c, c_stride, add);
  }
  multiply_panels<W, 4, kVectors>(a, b, rows, columns, depth, c, c_stride, add);
}

// By one panel that holds `columns` numbers a step of the depth, in as few vectors as these take.
template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_narrow(const float* a, const float* b, std::int64_t rows,
                                     std::int64_t columns, std::int64_t depth, float* c,
                                     std::int64_t c_stride, bool add) {
  if constexpr (kVectors > 1) {
    if (columns <= (kVectors - 1) * W) {
      return multiply_narrow<W, kRows, kVectors - 1>(a, b, rows, columns, depth, c, c_stride, add);
    }
  }
  if (rows == kRows && columns == kVectors * W) {
    multiply_tile<W, kRows, kVectors>(a, b, columns, depth, c, c_stride, add);
  } else {
    multiply_edge<W, kRows, kVectors>(a, b, columns, rows, columns, depth, c, c_stride, add);
  }
}

template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_prepared(const float* a, const float* b, std::int64_t rows,
                                       std::int64_t columns, std::int64_t depth, float* c,
                                       std::int64_t c_stride, bool add) {
  if constexpr (kRows > 8) {
    if (rows > 8)
      return multiply_narrow<W, kRows, kVectors>(a, b, rows, columns, depth, c, c_stride, add);
  }
  if constexpr (kRows > 4) {
    if (rows > 4)
      return multiply_narrow<W, 8, kVectors>(a, b, rows, columns, depth, c, c_stride, add);
  }
  multiply_narrow<W, 4, kVectors>(a, b, rows, columns, depth, c, c_stride, add);
}

// The loops for one instruction set: W floats a vector, tiles of R rows and V vectors.
#define PLIMSOLL_PRODUCT_LOOPS(name, attributes, W, R, V)                                        \
  attributes void pack_##name(const float* from, std::int64_t stride, std::int64_t depth_stride, \
                              std::int64_t count, std::int64_t width, std::int64_t depth,        \
                              float* to) {                                                       \
    pack<W, R, V * W>(from, stride, depth_stride, count, width, depth, to);                      \
  }                                                                                              \
  attributes void pack_rows_##name(const float* const* rows, std::int64_t width,                 \
                                   std::int64_t depth, float* to) {                              \
    pack_rows<W>(rows, width, depth, to);                                                        \
  }                                                                                              \
  attributes void multiply_##name(const float* a, const float* b, std::int64_t rows,             \
                                  std::int64_t columns, std::int64_t depth, float* c,            \
                                  std::int64_t c_stride, bool add) {                             \
    multiply<W, R, V>(a, b, rows, columns, depth, c, c_stride, add);                             \
  }                                                                                              \
  attributes void multiply_prepared_##name(const float* a, const float* b, std::int64_t rows,    \
                                           std::int64_t columns, std::int64_t depth, float* c,   \
                                           std::int64_t c_stride, bool add) {                    \
    multiply_prepared<W, R, V>(a, b, rows, columns, depth, c, c_stride, add);                    \
  }                                                                                              \
  constexpr ProductLoops kLoops_##name = {                                                       \
      R, V * W, pack_##name, pack_rows_##name, multiply_##name, multiply_prepared_##name};

PLIMSOLL_PRODUCT_LOOPS(baseline, __attribute__((flatten)), 4, 4, 2)
#if defined(__x86_64__)
PLIMSOLL_PRODUCT_LOOPS(avx2, __attribute__((flatten, target("avx2,fma"))), 8, 4, 3)
PLIMSOLL_PRODUCT_LOOPS(avx512, __attribute__((flatten, target("avx512f"))), 16, 12, 2)
#endif

}  // namespace

const ProductLoops* product_loops(ProductInstructions instructions) {
  switch (instructions) {
    case ProductInstructions::baseline:
      return &kLoops_baseline;
#if defined(__x86_64__)
    case ProductInstructions::avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kLoops_avx2
                                                                             : nullptr;
    case ProductInstructions::avx512:
      return __builtin_cpu_supports("avx512f") ? &kLoops_avx512 : nullptr;
#endif
    default:
      return nullptr;
  }
}

const ProductLoops& product_loops() {
  static const ProductLoops* const loops = [] {
    for (const auto wide : {ProductInstructions::avx512, ProductInstructions::avx2}) {
      if (const ProductLoops* found = product_loops(wide)) return found;
    }
    return &kLoops_baseline;
  }();
  return *loops;
}

}  // namespace plimsoll::kernels
