// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_bf16_loops.h"

#if defined(__x86_64__)
// GCC 12 finds its own header's undefined registers uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstring>

// What this instruction set is used in is compiled for it, whatever the rest is compiled for.
#define PLIMSOLL_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define PLIMSOLL_BF16_INLINE PLIMSOLL_BF16 __attribute__((always_inline)) inline
#endif

namespace plimsoll::kernels {

#if defined(__x86_64__)
namespace {

constexpr std::int64_t kWidth = 16;  // pairs, or f32, in a vector

PLIMSOLL_BF16_INLINE __m512bh every_lane(const std::uint16_t* pair) {
  std::int32_t bits;
  std::memcpy(&bits, pair, sizeof bits);
  return (__m512bh)_mm512_set1_epi32(bits);
}

template <int kRows, int kVectors>
PLIMSOLL_BF16_INLINE void multiply_tile(float* c, std::int64_t c_stride, const std::uint16_t* a,
                                        std::int64_t row, std::int64_t column,
                                        const std::uint32_t* b, std::int64_t b_stride,
                                        std::int64_t pairs, bool add) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = add ? _mm512_loadu_ps(c + i * c_stride + v * kWidth) : _mm512_setzero_ps();
    }
  }
  for (std::int64_t k = 0; k < pairs; ++k) {
    __m512bh vectors[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      vectors[v] = (__m512bh)_mm512_loadu_si512(b + v * kWidth);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const __m512bh factor = every_lane(a + i * row);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = _mm512_dpbf16_ps(sums[i][v], factor, vectors[v]);
      }
    }
    a += column;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(c + i * c_stride + v * kWidth, sums[i][v]);
    }
  }
}

template <int kVectors>
PLIMSOLL_BF16_INLINE void multiply_panel(float* c, std::int64_t c_stride, const std::uint16_t* a,
                                         std::int64_t row, std::int64_t column,
                                         const std::uint32_t* b, std::int64_t b_stride,
                                         std::int64_t rows, std::int64_t pairs, bool add) {
  std::int64_t i = 0;
  for (; i + 8 <= rows; i += 8) {
    multiply_tile<8, kVectors>(c + i * c_stride, c_stride, a + i * row, row, column, b, b_stride,
                               pairs, add);
  }
  for (; i < rows; ++i) {
    multiply_tile<1, kVectors>(c + i * c_stride, c_stride, a + i * row, row, column, b, b_stride,
                               pairs, add);
  }
}

PLIMSOLL_BF16 void multiply(float* c, std::int64_t c_stride, const std::uint16_t* a,
                            std::int64_t row, std::int64_t column, const std::uint32_t* b,
                            std::int64_t b_stride, std::int64_t rows, std::int64_t columns,
                            std::int64_t pairs, bool add) {
  std::int64_t j = 0;
  for (; j + 2 * kWidth <= columns; j += 2 * kWidth) {
    multiply_panel<2>(c + j, c_stride, a, row, column, b + j, b_stride, rows, pairs, add);
  }
  for (; j < columns; j += kWidth) {
    multiply_panel<1>(c + j, c_stride, a, row, column, b + j, b_stride, rows, pairs, add);
  }
}

// Lanes 0 to 15 of two vectors, in turns.
PLIMSOLL_BF16_INLINE __m512i in_turns() {
  alignas(64) std::uint16_t lanes[32];
  for (std::uint16_t i = 0; i < 16; ++i) {
    lanes[2 * i] = i;
    lanes[2 * i + 1] = static_cast<std::uint16_t>(i + 16);
  }
  return _mm512_load_si512(lanes);
}

PLIMSOLL_BF16 void interleave(const std::uint16_t* first, const std::uint16_t* second,
                              std::uint32_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kWidth) {
    const auto lanes =
        static_cast<__mmask16>((1u << std::min<std::int64_t>(kWidth, count - i)) - 1);
    const __m256i low = _mm256_maskz_loadu_epi16(lanes, first + i);
    const __m256i high =
        second != nullptr ? _mm256_maskz_loadu_epi16(lanes, second + i) : _mm256_setzero_si256();
    const __m512i both = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
    _mm512_mask_storeu_epi32(to + i, lanes, both);
  }
}

PLIMSOLL_BF16 void narrow_pairs(const float* first, const float* second, std::uint32_t* to,
                                std::int64_t count) {
  const __m512i order = in_turns();
  for (std::int64_t i = 0; i < count; i += kWidth) {
    const __m512 low = _mm512_loadu_ps(first + i);
    const __m512 high = second != nullptr ? _mm512_loadu_ps(second + i) : _mm512_setzero_ps();
    const auto halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(order, halves));
  }
}

PLIMSOLL_BF16 void narrow(const float* from, std::uint16_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kWidth) {
    const auto half = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), half);
  }
}

constexpr Bf16Loops kLoops = {multiply, interleave, narrow_pairs, narrow};

}  // namespace

const Bf16Loops* bf16_vector_loops() {
  static const bool has_products = __builtin_cpu_supports("avx512bf16") != 0 &&
                                   __builtin_cpu_supports("avx512bw") != 0 &&
                                   __builtin_cpu_supports("avx512vl") != 0;
  return has_products ? &kLoops : nullptr;
}
#else
const Bf16Loops* bf16_vector_loops() { return nullptr; }
#endif

}  // namespace plimsoll::kernels
