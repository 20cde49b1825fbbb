// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_loops.h"
#include "kernels/cpu/products/product_loops_amx.h"

#if defined(__x86_64__)
// GCC 12 finds its own header's undefined registers uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstring>

// What is included is compiled for these, whatever the rest is compiled for.
#define PLIMSOLL_BF16_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"
#define PLIMSOLL_BF16 __attribute__((target(PLIMSOLL_BF16_TARGET)))
#define PLIMSOLL_INLINE PLIMSOLL_BF16 __attribute__((always_inline)) inline

#include "kernels/cpu/products/product_tiles.inc"
#endif

namespace plimsoll::kernels {

#if defined(__x86_64__)
namespace {

constexpr int kRows = 12, kVectors = 2, kWidth = 16;
constexpr int kColumns = kVectors * kWidth;

struct PairLanes {
  using T = Bfloat16;
  using Sum = float;
  using Row = __m512bh;
  using Sums = __m512;
  static constexpr std::int64_t kStep = 2;
  static constexpr int kWidth = 16;
  static constexpr bool kNarrows = true;
  static constexpr bool kCorrects = false;

  PLIMSOLL_INLINE static Row load_row(const T* from) { return (__m512bh)_mm512_loadu_si512(from); }
  // Two vectors of columns, of two rows each, whose numbers are put in turns.
  PLIMSOLL_INLINE static void load_rows(const T* from, std::int64_t stride, Row (&rows)[2]) {
    const __m512i first = _mm512_loadu_si512(from), second = _mm512_loadu_si512(from + stride);
    rows[0] = (__m512bh)_mm512_permutex2var_epi16(first, pair_order(0), second);
    rows[1] = (__m512bh)_mm512_permutex2var_epi16(first, pair_order(kWidth), second);
  }
  // Lane i of one vector, then of another, from i = `first` on.
  PLIMSOLL_INLINE static __m512i pair_order(int first) {
    alignas(64) std::uint16_t lanes[2 * kWidth];
    for (int i = 0; i < kWidth; ++i) {
      lanes[2 * i] = static_cast<std::uint16_t>(first + i);
      lanes[2 * i + 1] = static_cast<std::uint16_t>(first + i + 2 * kWidth);
    }
    return _mm512_load_si512(lanes);
  }
  PLIMSOLL_INLINE static Sums load(const float* from) { return _mm512_loadu_ps(from); }
  PLIMSOLL_INLINE static void store(float* to, const Sums& x) { _mm512_storeu_ps(to, x); }
  PLIMSOLL_INLINE static void store_narrowed(T* to, const Sums& x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(x));
  }
  PLIMSOLL_INLINE static Sums add_product(const T* a, const Row& row, const Sums& sums) {
    std::int32_t pair;
    std::memcpy(&pair, a, sizeof pair);
    return _mm512_dpbf16_ps(sums, (__m512bh)_mm512_set1_epi32(pair), row);
  }
  PLIMSOLL_INLINE static Sums add_products(const Row& x, const Row& y, const Sums& sums) {
    return _mm512_dpbf16_ps(sums, x, y);
  }
  PLIMSOLL_INLINE static Sum sum_of(const Sums& sums) { return _mm512_reduce_add_ps(sums); }
};

// The first `count` of a vector's lanes.
PLIMSOLL_INLINE __mmask16 first_lanes(std::int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<std::int64_t>(count, 0, kWidth)) - 1);
}

// Sixteen rows, of which there are `count` and those from `width` on are not wanted, over kWidth
// pairs, of which `numbers` numbers are there: squares of 4 x 4 pairs are turned, and then the
// squares.
template <typename RowAt>
PLIMSOLL_INLINE void turn_rows(const RowAt& row_at, std::int64_t count, std::int64_t numbers,
                               std::int64_t width, std::int64_t step, Bfloat16* to) {
  const auto lanes = static_cast<__mmask32>(
      (std::uint64_t{1} << std::clamp<std::int64_t>(numbers, 0, 2 * kWidth)) - 1);
  __m512i turned[4][4];
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    __m512i rows[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      rows[r] = 4 * g + r < count ? _mm512_maskz_loadu_epi16(lanes, row_at(4 * g + r))
                                  : _mm512_setzero_si512();
    }
    const __m512i low[] = {_mm512_unpacklo_epi32(rows[0], rows[1]),
                           _mm512_unpacklo_epi32(rows[2], rows[3])};
    const __m512i high[] = {_mm512_unpackhi_epi32(rows[0], rows[1]),
                            _mm512_unpackhi_epi32(rows[2], rows[3])};
    turned[g][0] = _mm512_unpacklo_epi64(low[0], low[1]);
    turned[g][1] = _mm512_unpackhi_epi64(low[0], low[1]);
    turned[g][2] = _mm512_unpacklo_epi64(high[0], high[1]);
    turned[g][3] = _mm512_unpackhi_epi64(high[0], high[1]);
  }
  const __mmask16 wanted = first_lanes(width);
  const std::int64_t steps = std::min<std::int64_t>(kWidth, (numbers + 1) / 2);
  // A quarter of turned[g][q] is pair 4 * quarter + q of rows 4 * g to 4 * g + 3.
  const auto store = [&](std::int64_t pair, const __m512i& pairs)
                         __attribute__((always_inline, target(PLIMSOLL_BF16_TARGET))) {
                           if (pair < steps)
                             _mm512_mask_storeu_epi32(to + pair * step, wanted, pairs);
                         };
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const __m512i* const first = &turned[0][q];
    const __m512i low[] = {_mm512_shuffle_i64x2(first[0], first[4], 0x44),
                           _mm512_shuffle_i64x2(first[8], first[12], 0x44)};
    const __m512i high[] = {_mm512_shuffle_i64x2(first[0], first[4], 0xee),
                            _mm512_shuffle_i64x2(first[8], first[12], 0xee)};
    store(q, _mm512_shuffle_i64x2(low[0], low[1], 0x88));
    store(4 + q, _mm512_shuffle_i64x2(low[0], low[1], 0xdd));
    store(8 + q, _mm512_shuffle_i64x2(high[0], high[1], 0x88));
    store(12 + q, _mm512_shuffle_i64x2(high[0], high[1], 0xdd));
  }
}

template <typename RowAt>
PLIMSOLL_INLINE void pack_turned(const RowAt& row_at, std::int64_t count, std::int64_t width,
                                 std::int64_t depth, Bfloat16* to) {
  for (std::int64_t i = 0; i < width; i += kWidth) {
    for (std::int64_t d = 0; d < depth; d += 2 * kWidth) {
      const auto from = [&](std::int64_t r)
                            __attribute__((always_inline, target(PLIMSOLL_BF16_TARGET))) {
                              return row_at(i + r) + d;
                            };
      Bfloat16* const at = to + d * width + 2 * i;
      // Most are of a size that is known.
      if (count - i >= kWidth && depth - d >= 2 * kWidth) {
        turn_rows(from, kWidth, 2 * kWidth, kWidth, 2 * width, at);
      } else if (count - i == kRows && width - i == kRows && depth - d >= 2 * kWidth) {
        turn_rows(from, kRows, 2 * kWidth, kRows, 2 * width, at);
      } else {
        turn_rows(from, count - i, depth - d, width - i, 2 * width, at);
      }
    }
  }
}

// Neighbours of two steps of the depth in turns; without a second one it is zero.
PLIMSOLL_INLINE void interleave(const Bfloat16* first, const Bfloat16* second, std::int64_t count,
                                std::int64_t width, Bfloat16* to) {
  for (std::int64_t i = 0; i < width; i += kWidth) {
    const __mmask16 lanes = first_lanes(count - i);
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, first + i));
    const __m512i high = second == nullptr
                             ? _mm512_setzero_si512()
                             : _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, second + i));
    _mm512_mask_storeu_epi32(to + 2 * i, first_lanes(width - i),
                             _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
}

PLIMSOLL_INLINE void pack_runs_of_pairs(const Bfloat16* from, std::int64_t depth_stride,
                                        std::int64_t count, std::int64_t width, std::int64_t depth,
                                        Bfloat16* to) {
  for (std::int64_t d = 0; d < depth; d += 2) {
    const Bfloat16* const second = d + 1 < depth ? from + depth_stride : nullptr;
    interleave(from, second, count, width, to);
    from += 2 * depth_stride;
    to += 2 * width;
  }
}

PLIMSOLL_BF16 void pack_pairs(const Bfloat16* from, std::int64_t stride, std::int64_t depth_stride,
                              std::int64_t count, std::int64_t width, std::int64_t depth,
                              Bfloat16* to) {
  if (stride != 1 || depth_stride == 1) {
    const auto row_at = [&](std::int64_t r)
                            __attribute__((always_inline, target(PLIMSOLL_BF16_TARGET))) {
                              return from + r * stride;
                            };
    return pack_turned(row_at, count, width, depth, to);
  }
  // Of sizes that are known, but at the edges.
  if (count == kColumns && width == kColumns) {
    return pack_runs_of_pairs(from, depth_stride, kColumns, kColumns, depth, to);
  }
  if (count == kRows && width == kRows) {
    return pack_runs_of_pairs(from, depth_stride, kRows, kRows, depth, to);
  }
  pack_runs_of_pairs(from, depth_stride, count, width, depth, to);
}

PLIMSOLL_BF16 void pack_rows_of_pairs(const Bfloat16* const* rows, std::int64_t width,
                                      std::int64_t depth, Bfloat16* to) {
  const auto row_at = [&](std::int64_t r) __attribute__((
                          always_inline, target(PLIMSOLL_BF16_TARGET))) { return rows[r]; };
  pack_turned(row_at, width, width, depth, to);
}

PLIMSOLL_BF16 void multiply_pairs(const Bfloat16* a, const Bfloat16* b, std::int64_t rows,
                                  std::int64_t columns, std::int64_t depth,
                                  const ProductTile<Bfloat16>& c) {
  multiply<PairLanes, kRows, kVectors>(a, b, rows, columns, depth, c);
}

PLIMSOLL_BF16 void multiply_prepared_pairs(const Bfloat16* a, const Bfloat16* b, std::int64_t rows,
                                           std::int64_t columns, std::int64_t depth,
                                           const ProductTile<Bfloat16>& c) {
  multiply_prepared<PairLanes, kRows, kVectors>(a, b, rows, columns, depth, c);
}

PLIMSOLL_BF16 void add_steps_of_pairs(const Bfloat16* a, std::int64_t rows, const Bfloat16* b,
                                      std::int64_t b_stride, std::int64_t columns, float* sums,
                                      std::int64_t sums_stride) {
  add_steps<PairLanes, kRows, kVectors>(a, rows, b, b_stride, columns, sums, sums_stride);
}

PLIMSOLL_BF16 void add_dots_of_pairs(const Bfloat16* a, std::int64_t a_stride, std::int64_t rows,
                                     const Bfloat16* b, std::int64_t b_stride, std::int64_t depth,
                                     float* c, std::int64_t c_stride) {
  add_dots<PairLanes>(a, a_stride, rows, b, b_stride, depth, c, c_stride);
}

constexpr ProductLoops<Bfloat16> kLoops = {kRows,
                                           kColumns,
                                           pack_pairs,
                                           pack_rows_of_pairs,
                                           multiply_pairs,
                                           multiply_prepared_pairs,
                                           add_steps_of_pairs,
                                           add_dots_of_pairs,
                                           2 * kWidth};

}  // namespace
#endif

template <>
const ProductLoops<Bfloat16>* product_loops<Bfloat16>(ProductInstructions instructions) {
#if defined(__x86_64__)
  static const bool has_products =
      __builtin_cpu_supports("avx512bf16") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (!has_products) return nullptr;
  if (instructions == ProductInstructions::avx512) return &kLoops;
  if (instructions == ProductInstructions::amx) return amx_bf16_loops(kLoops);
#endif
  static_cast<void>(instructions);
  return nullptr;
}

template <>
const ProductLoops<Bfloat16>& product_loops<Bfloat16>() {
  static const ProductLoops<Bfloat16>* const tiles =
      product_loops<Bfloat16>(ProductInstructions::amx);
  return tiles != nullptr ? *tiles : few_rows_loops<Bfloat16>();
}

template <>
const ProductLoops<Bfloat16>& few_rows_loops<Bfloat16>() {
  return *product_loops<Bfloat16>(ProductInstructions::avx512);
}

}  // namespace plimsoll::kernels
