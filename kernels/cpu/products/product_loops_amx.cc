// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_loops_amx.h"

#if defined(__x86_64__)
// GCC 12 finds its own header's undefined registers uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstring>

#include "kernels/cpu/tile_registers.h"

#define PLIMSOLL_AMX_TARGET \
  "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,amx-int8"
#define PLIMSOLL_AMX __attribute__((target(PLIMSOLL_AMX_TARGET)))
#define PLIMSOLL_INLINE PLIMSOLL_AMX __attribute__((always_inline)) inline

#include "kernels/cpu/product_steps.inc"
#include "kernels/cpu/tile_registers.inc"
#endif

namespace plimsoll::kernels {

#if defined(__x86_64__)
namespace {

// A panel of rows is two tiles high, one of columns two wide. Of a panel of the left operand, of
// `width` rows, 64 bytes of the depth (a chunk) of every row follow those of the row before, and
// chunks follow each other; the last one has as many bytes as there are. A panel of the right
// operand is as everywhere: of every step, which is 4 bytes, `columns` of them side by side, so
// that 16 steps are two tiles.
constexpr std::int64_t kPanelRows = 2 * kRowsOfTile, kPanelColumns = 32;
constexpr std::int64_t kStepBytes = 4, kStepsOfChunk = kBytesOfTileRow / kStepBytes;

struct Bf16Tiles : PairTiles {
  using T = Bfloat16;
  PLIMSOLL_INLINE static void narrow(const float* from, T* to, __mmask16 lanes) {
    const auto narrowed = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(lanes, from));
    _mm256_mask_storeu_epi16(to, lanes, narrowed);
  }
};

template <bool kLhsHasSign, bool kRhsHasSign>
struct ByteTiles {
  using T = std::uint8_t;
  template <bool kTwoRows, bool kTwoColumns>
  PLIMSOLL_INLINE static void multiply() {
#define PLIMSOLL_MULTIPLY_BYTES(instruction)                                \
  PLIMSOLL_MULTIPLY_TILES(instruction, 0, 4, 6);                            \
  if constexpr (kTwoColumns) PLIMSOLL_MULTIPLY_TILES(instruction, 1, 4, 7); \
  if constexpr (kTwoRows) PLIMSOLL_MULTIPLY_TILES(instruction, 2, 5, 6);    \
  if constexpr (kTwoRows && kTwoColumns) PLIMSOLL_MULTIPLY_TILES(instruction, 3, 5, 7)
    if constexpr (kLhsHasSign && kRhsHasSign) {
      PLIMSOLL_MULTIPLY_BYTES("tdpbssd");
    } else if constexpr (kLhsHasSign) {
      PLIMSOLL_MULTIPLY_BYTES("tdpbsud");
    } else if constexpr (kRhsHasSign) {
      PLIMSOLL_MULTIPLY_BYTES("tdpbusd");
    } else {
      PLIMSOLL_MULTIPLY_BYTES("tdpbuud");
    }
#undef PLIMSOLL_MULTIPLY_BYTES
  }
  PLIMSOLL_INLINE static void narrow(const std::uint32_t* from, T* to, __mmask16 lanes) {
    _mm512_mask_cvtepi32_storeu_epi8(to, lanes, _mm512_maskz_loadu_epi32(lanes, from));
  }
};

// A product of one or two tiles of rows by one or two of columns over the whole depth, in tiles 0
// to 3; steps of b are b_stride bytes apart.
template <typename Tiles, bool kTwoRows, bool kTwoColumns>
PLIMSOLL_INLINE void add_chunks(const std::byte* a, const std::byte* b, std::int64_t b_stride,
                                std::int64_t steps) {
  constexpr std::int64_t kWidth = kTwoRows ? kPanelRows : kRowsOfTile;
  for (; steps >= kStepsOfChunk; steps -= kStepsOfChunk) {
    multiply_chunk<Tiles, kTwoRows, kTwoColumns>(a, kBytesOfTileRow, b, b_stride);
    a += kWidth * kBytesOfTileRow;
    b += kStepsOfChunk * b_stride;
  }
  if (steps == 0) return;
  // The rest beside zeros.
  alignas(64) std::byte left[kPanelRows * kBytesOfTileRow];
  alignas(64) std::byte right[kStepsOfChunk * 2 * kBytesOfTileRow];
  const __mmask16 lanes = first_lanes(steps);
  for (std::int64_t i = 0; i < kWidth; ++i) {
    _mm512_store_si512(left + i * kBytesOfTileRow,
                       _mm512_maskz_loadu_epi32(lanes, a + i * steps * kStepBytes));
  }
  for (std::int64_t s = 0; s < kStepsOfChunk; ++s) {
    for (std::int64_t at = 0; at < (kTwoColumns ? 128 : 64); at += 64) {
      _mm512_store_si512(right + s * 128 + at, s < steps ? _mm512_loadu_si512(b + s * b_stride + at)
                                                         : _mm512_setzero_si512());
    }
  }
  multiply_chunk<Tiles, kTwoRows, kTwoColumns>(left, kBytesOfTileRow, right, 128);
}

template <typename Tiles, bool kTwoRows, bool kTwoColumns>
PLIMSOLL_INLINE void multiply_tiles(const std::byte* a, const std::byte* b, std::int64_t b_stride,
                                    std::int64_t rows, std::int64_t columns, std::int64_t steps,
                                    const ProductTile<typename Tiles::T>& c) {
  using T = typename Tiles::T;
  using Sum = ProductSum<T>;
  constexpr std::int64_t kRows = kTwoRows ? kPanelRows : kRowsOfTile;
  constexpr std::int64_t kColumns = kTwoColumns ? kPanelColumns : kPanelColumns / 2;
  constexpr auto kSumBytes = static_cast<std::int64_t>(sizeof(Sum));
  const bool is_whole = rows == kRows && columns == kColumns;
  // Sums that have no place of their own, or none as large as the tiles.
  alignas(64) Sum sums[kPanelRows * kPanelColumns];
  constexpr std::int64_t kStride = kPanelColumns;
  if (!c.add) {
    PLIMSOLL_CLEAR_TILE(0);
    if constexpr (kTwoColumns) PLIMSOLL_CLEAR_TILE(1);
    if constexpr (kTwoRows) PLIMSOLL_CLEAR_TILE(2);
    if constexpr (kTwoRows && kTwoColumns) PLIMSOLL_CLEAR_TILE(3);
  } else if (is_whole) {
    load_sums<kTwoRows, kTwoColumns>(c.sums, c.stride * kSumBytes);
  } else {
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kColumns; j += 16) {
        const __mmask16 lanes = i < rows ? first_lanes(columns - j) : __mmask16{0};
        _mm512_store_si512(sums + i * kStride + j,
                           _mm512_maskz_loadu_epi32(lanes, c.sums + i * c.stride + j));
      }
    }
    load_sums<kTwoRows, kTwoColumns>(sums, kStride * kSumBytes);
  }
  add_chunks<Tiles, kTwoRows, kTwoColumns>(a, b, b_stride, steps);
  if (c.narrowed == nullptr && is_whole) {
    store_sums<kTwoRows, kTwoColumns>(c.sums, c.stride * kSumBytes);
    return;
  }
  store_sums<kTwoRows, kTwoColumns>(sums, kStride * kSumBytes);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < kColumns; j += 16) {
      const Sum* const from = sums + i * kStride + j;
      if (c.narrowed != nullptr) {
        Tiles::narrow(from, c.narrowed + i * c.narrowed_stride + j, first_lanes(columns - j));
      } else {
        _mm512_mask_storeu_epi32(c.sums + i * c.stride + j, first_lanes(columns - j),
                                 _mm512_load_si512(from));
      }
    }
  }
}

template <typename Tiles>
PLIMSOLL_INLINE void multiply_panel(const std::byte* a, const std::byte* b, std::int64_t b_stride,
                                    std::int64_t rows, std::int64_t columns, std::int64_t steps,
                                    const ProductTile<typename Tiles::T>& c) {
  if (rows > kRowsOfTile) {
    if (columns > kPanelColumns / 2) {
      return multiply_tiles<Tiles, true, true>(a, b, b_stride, rows, columns, steps, c);
    }
    return multiply_tiles<Tiles, true, false>(a, b, b_stride, rows, columns, steps, c);
  }
  if (columns > kPanelColumns / 2) {
    return multiply_tiles<Tiles, false, true>(a, b, b_stride, rows, columns, steps, c);
  }
  multiply_tiles<Tiles, false, false>(a, b, b_stride, rows, columns, steps, c);
}

template <typename T>
PLIMSOLL_INLINE std::int64_t steps_of(std::int64_t depth) {
  return packed_depth<T>(depth) / ProductNumbers<T>::kStep;
}

template <typename Tiles>
PLIMSOLL_AMX void multiply_by_tiles(const typename Tiles::T* a, const typename Tiles::T* b,
                                    std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                    const ProductTile<typename Tiles::T>& c) {
  using T = typename Tiles::T;
  const std::int64_t steps = steps_of<T>(depth);
  const auto* panel = reinterpret_cast<const std::byte*>(b);
  for (std::int64_t j = 0; j < columns; j += kPanelColumns) {
    ProductTile<T> at = c;
    if (c.sums != nullptr) at.sums += j;
    if (c.narrowed != nullptr) at.narrowed += j;
    multiply_panel<Tiles>(reinterpret_cast<const std::byte*>(a), panel, kPanelColumns * kStepBytes,
                          rows, std::min(kPanelColumns, columns - j), steps, at);
    panel += steps * kPanelColumns * kStepBytes;
  }
}

template <typename Tiles>
PLIMSOLL_AMX void multiply_prepared_by_tiles(const typename Tiles::T* a, const typename Tiles::T* b,
                                             std::int64_t rows, std::int64_t columns,
                                             std::int64_t depth,
                                             const ProductTile<typename Tiles::T>& c) {
  multiply_panel<Tiles>(reinterpret_cast<const std::byte*>(a),
                        reinterpret_cast<const std::byte*>(b), columns * kStepBytes, rows, columns,
                        steps_of<typename Tiles::T>(depth), c);
}

template <typename T>
PLIMSOLL_AMX void pack_rows_for_tiles(const T* from, std::int64_t stride, std::int64_t depth_stride,
                                      std::int64_t count, std::int64_t width, std::int64_t depth,
                                      T* to) {
  constexpr std::int64_t kStep = ProductNumbers<T>::kStep, kChunk = kStep * kStepsOfChunk;
  const std::int64_t whole = depth / kChunk * kChunk;
  const std::int64_t rest = depth - whole, rest_width = packed_depth<T>(rest);
  const __mmask16 rest_lanes = first_lanes(rest_width / kStep);
  if (depth_stride == 1) {
    for (std::int64_t i = 0; i < width; ++i) {
      const T* const row = from + i * stride;
      const bool is_there = i < count;
      for (std::int64_t d = 0; d < whole; d += kChunk) {
        _mm512_storeu_si512(to + d * width + i * kChunk,
                            is_there ? _mm512_loadu_si512(row + d) : _mm512_setzero_si512());
      }
      if (rest == 0) continue;
      _mm512_mask_storeu_epi32(to + whole * width + i * rest_width, rest_lanes,
                               is_there ? some_of(row + whole, rest) : _mm512_setzero_si512());
    }
    return;
  }
  // Neighbouring rows lie together, or there is one number of each: 16 steps of 16 rows are turned.
  for (std::int64_t d = 0; d < depth; d += kChunk) {
    const bool is_whole = d < whole;
    for (std::int64_t i = 0; i < width; i += kRowsOfTile) {
      const __mmask16 lanes = first_lanes(count - i);
      __m512i v[16];
#pragma GCC unroll 16
      for (int s = 0; s < 16; ++s) {
        const std::int64_t at = d + s * kStep;
        v[s] = at < depth ? step_of(from + at * depth_stride + i, depth_stride,
                                    std::min(kStep, depth - at), lanes)
                          : _mm512_setzero_si512();
      }
      turn(v);
      T* const tile = to + d * width + i * (is_whole ? kChunk : rest_width);
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        if (is_whole) {
          _mm512_storeu_si512(tile + r * kChunk, v[r]);
        } else {
          _mm512_mask_storeu_epi32(tile + r * rest_width, rest_lanes, v[r]);
        }
      }
    }
  }
}

template <typename T>
PLIMSOLL_AMX void pack_whole_rows_for_tiles(const T* const* rows, std::int64_t width,
                                            std::int64_t depth, T* to) {
  constexpr std::int64_t kChunk = ProductNumbers<T>::kStep * kStepsOfChunk;
  for (std::int64_t i = 0; i < width; ++i) {
    for (std::int64_t d = 0; d < depth; d += kChunk) {
      _mm512_storeu_si512(to + d * width + i * kChunk, _mm512_loadu_si512(rows[i] + d));
    }
  }
}

}  // namespace

const ProductLoops<Bfloat16>* amx_bf16_loops(const ProductLoops<Bfloat16>& vectors) {
  static const ProductLoops<Bfloat16> loops = {kPanelRows,
                                               kPanelColumns,
                                               vectors.pack,
                                               pack_whole_rows_for_tiles<Bfloat16>,
                                               multiply_by_tiles<Bf16Tiles>,
                                               multiply_prepared_by_tiles<Bf16Tiles>,
                                               nullptr,
                                               nullptr,
                                               0,
                                               true,
                                               kRowsOfTile,
                                               pack_rows_for_tiles<Bfloat16>};
  return has_bf16_tiles() && vectors.columns == kPanelColumns ? &loops : nullptr;
}

template <bool kLhsHasSign, bool kRhsHasSign>
const ProductLoops<std::uint8_t>* byte_loops_of(decltype(ProductLoops<std::uint8_t>::pack) pack) {
  using Tiles = ByteTiles<kLhsHasSign, kRhsHasSign>;
  static const ProductLoops<std::uint8_t> loops = {kPanelRows,
                                                   kPanelColumns,
                                                   pack,
                                                   pack_whole_rows_for_tiles<std::uint8_t>,
                                                   multiply_by_tiles<Tiles>,
                                                   multiply_prepared_by_tiles<Tiles>,
                                                   nullptr,
                                                   nullptr,
                                                   0,
                                                   true,
                                                   kRowsOfTile,
                                                   pack_rows_for_tiles<std::uint8_t>};
  return &loops;
}

const ProductLoops<std::uint8_t>* amx_byte_loops(bool lhs_has_sign, bool rhs_has_sign,
                                                 decltype(ProductLoops<std::uint8_t>::pack) pack) {
  if (!has_byte_tiles()) return nullptr;
  if (lhs_has_sign)
    return rhs_has_sign ? byte_loops_of<true, true>(pack) : byte_loops_of<true, false>(pack);
  return rhs_has_sign ? byte_loops_of<false, true>(pack) : byte_loops_of<false, false>(pack);
}
#else
const ProductLoops<Bfloat16>* amx_bf16_loops(const ProductLoops<Bfloat16>&) { return nullptr; }
const ProductLoops<std::uint8_t>* amx_byte_loops(bool, bool,
                                                 decltype(ProductLoops<std::uint8_t>::pack)) {
  return nullptr;
}
#endif

}  // namespace plimsoll::kernels
