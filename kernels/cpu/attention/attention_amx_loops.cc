// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_bf16_loops.h"
#include "kernels/cpu/tile_registers.h"

#if defined(__x86_64__)
// GCC 12 finds its own header's undefined registers uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime/base/float16.h"

#define PLIMSOLL_AMX \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#define PLIMSOLL_INLINE PLIMSOLL_AMX __attribute__((always_inline)) inline

#include "kernels/cpu/product_steps.inc"
#include "kernels/cpu/tile_registers.inc"
#endif

namespace plimsoll::kernels {

#if defined(__x86_64__)
namespace {

constexpr std::int64_t kPairsOfChunk = 16, kRows = 2 * kRowsOfTile, kPairBytes = 4;
constexpr std::int64_t kMostChunks = 16;  // of rows that are copied

// Rows of pairs where tiles are read from: where they lie, or 64 bytes of every row after those of
// the row before.
struct Rows {
  const std::byte* data;
  std::int64_t stride, chunk_stride;  // in bytes
};

// Pairs of `rows` rows beside zeros, chunk after chunk.
PLIMSOLL_INLINE void copy_rows(const std::uint16_t* a, std::int64_t row, std::int64_t column,
                               std::int64_t rows, std::int64_t pairs, std::byte* to) {
  for (std::int64_t k = 0; k < pairs; k += kPairsOfChunk) {
    const std::int64_t some = std::min(kPairsOfChunk, pairs - k);
    for (std::int64_t i = 0; i < kRows; i += kRowsOfTile) {
      __m512i v[16];
      if (column == 2) {
        const __mmask16 lanes = first_lanes(some);
        for (int r = 0; r < 16; ++r) {
          v[r] = i + r < rows ? _mm512_maskz_loadu_epi32(lanes, a + (i + r) * row + 2 * k)
                              : _mm512_setzero_si512();
        }
      } else {  // the rows of a pair lie together
        const __mmask16 lanes = first_lanes(rows - i);
#pragma GCC unroll 16
        for (int s = 0; s < 16; ++s) {
          v[s] = s < some ? _mm512_maskz_loadu_epi32(lanes, a + (k + s) * column + 2 * i)
                          : _mm512_setzero_si512();
        }
        turn(v);
      }
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        _mm512_store_si512(to + (k / kPairsOfChunk * kRows + i + r) * kBytesOfTileRow, v[r]);
      }
    }
  }
}

// One or two tiles of rows, of which `rows` are there, by one or two of columns.
template <bool kTwoRows, bool kTwoColumns>
PLIMSOLL_INLINE void multiply_tiles(float* c, std::int64_t c_stride, const Rows& a,
                                    const std::uint32_t* b, std::int64_t b_stride,
                                    std::int64_t rows, std::int64_t pairs, bool add) {
  constexpr std::int64_t kHeight = kTwoRows ? kRows : kRowsOfTile;
  constexpr std::int64_t kWidth = kTwoColumns ? 32 : 16, kStride = 32;
  alignas(64) float sums[kRows * kStride];
  const bool is_whole = rows == kHeight;
  float* const at = is_whole ? c : sums;
  const std::int64_t stride = (is_whole ? c_stride : kStride) * kPairBytes;
  if (!add) {
    PLIMSOLL_CLEAR_TILE(0);
    if constexpr (kTwoColumns) PLIMSOLL_CLEAR_TILE(1);
    if constexpr (kTwoRows) PLIMSOLL_CLEAR_TILE(2);
    if constexpr (kTwoRows && kTwoColumns) PLIMSOLL_CLEAR_TILE(3);
  } else {
    for (std::int64_t i = 0; !is_whole && i < kHeight; ++i) {
      for (std::int64_t j = 0; j < kWidth; j += 16) {
        _mm512_store_ps(sums + i * kStride + j,
                        i < rows ? _mm512_loadu_ps(c + i * c_stride + j) : _mm512_setzero_ps());
      }
    }
    load_sums<kTwoRows, kTwoColumns>(at, stride);
  }
  const std::byte* left = a.data;
  std::int64_t k = 0;
  for (; k + kPairsOfChunk <= pairs; k += kPairsOfChunk) {
    multiply_chunk<PairTiles, kTwoRows, kTwoColumns>(
        left, a.stride, reinterpret_cast<const std::byte*>(b + k * b_stride),
        b_stride * kPairBytes);
    left += a.chunk_stride;
  }
  if (k < pairs) {  // the rest beside zeros, as the rows have them
    alignas(64) std::uint32_t rest[kPairsOfChunk * kStride];
    for (std::int64_t s = 0; s < kPairsOfChunk; ++s) {
      for (std::int64_t j = 0; j < kWidth; j += 16) {
        _mm512_store_si512(rest + s * kStride + j,
                           k + s < pairs ? _mm512_loadu_si512(b + (k + s) * b_stride + j)
                                         : _mm512_setzero_si512());
      }
    }
    multiply_chunk<PairTiles, kTwoRows, kTwoColumns>(
        left, a.stride, reinterpret_cast<const std::byte*>(rest), kStride * kPairBytes);
  }
  store_sums<kTwoRows, kTwoColumns>(at, stride);
  for (std::int64_t i = 0; !is_whole && i < rows; ++i) {
    for (std::int64_t j = 0; j < kWidth; j += 16) {
      _mm512_storeu_ps(c + i * c_stride + j, _mm512_load_ps(sums + i * kStride + j));
    }
  }
}

template <bool kTwoRows>
PLIMSOLL_INLINE void multiply_rows(float* c, std::int64_t c_stride, const Rows& a,
                                   const std::uint32_t* b, std::int64_t b_stride, std::int64_t rows,
                                   std::int64_t columns, std::int64_t pairs, bool add) {
  std::int64_t j = 0;
  for (; j + 32 <= columns; j += 32) {
    multiply_tiles<kTwoRows, true>(c + j, c_stride, a, b + j, b_stride, rows, pairs, add);
  }
  if (j < columns) {
    multiply_tiles<kTwoRows, false>(c + j, c_stride, a, b + j, b_stride, rows, pairs, add);
  }
}

PLIMSOLL_AMX void multiply_by_tiles(float* c, std::int64_t c_stride, const std::uint16_t* a,
                                    std::int64_t row, std::int64_t column, const std::uint32_t* b,
                                    std::int64_t b_stride, std::int64_t rows, std::int64_t columns,
                                    std::int64_t pairs, bool add) {
  alignas(64) std::byte copy[kMostChunks * kRows * kBytesOfTileRow];
  constexpr std::int64_t kMostPairs = kMostChunks * kPairsOfChunk;
  for (std::int64_t i = 0; i < rows; i += kRows) {
    const std::int64_t some_rows = std::min(kRows, rows - i);
    for (std::int64_t k = 0; k < pairs; k += kMostPairs) {
      const std::int64_t some = std::min(kMostPairs, pairs - k);
      const std::uint16_t* const from = a + i * row + k * column;
      Rows left{reinterpret_cast<const std::byte*>(from), 2 * row, kBytesOfTileRow};
      if (column != 2 || some_rows < kRows || some % kPairsOfChunk != 0) {
        copy_rows(from, row, column, some_rows, some, copy);
        left = {copy, kBytesOfTileRow, kRows * kBytesOfTileRow};
      }
      float* const to = c + i * c_stride;
      const std::uint32_t* const right = b + k * b_stride;
      if (some_rows > kRowsOfTile) {
        multiply_rows<true>(to, c_stride, left, right, b_stride, some_rows, columns, some,
                            add || k > 0);
      } else {
        multiply_rows<false>(to, c_stride, left, right, b_stride, some_rows, columns, some,
                             add || k > 0);
      }
    }
  }
}

}  // namespace

const Bf16Loops* bf16_tile_loops() {
  static const Bf16Loops* const loops = []() -> const Bf16Loops* {
    const Bf16Loops* const vectors = bf16_vector_loops();
    if (vectors == nullptr || !has_bf16_tiles()) return nullptr;
    static Bf16Loops tiles = *vectors;
    tiles.multiply = multiply_by_tiles;
    tiles.uses_tiles = true;
    return &tiles;
  }();
  return loops;
}
#else
const Bf16Loops* bf16_tile_loops() { return nullptr; }
#endif

const Bf16Loops* bf16_loops() {
  const Bf16Loops* const tiles = bf16_tile_loops();
  return tiles != nullptr ? tiles : bf16_vector_loops();
}

}  // namespace plimsoll::kernels
