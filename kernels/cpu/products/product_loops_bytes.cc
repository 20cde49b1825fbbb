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
#define PLIMSOLL_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define PLIMSOLL_INLINE PLIMSOLL_VNNI __attribute__((always_inline)) inline

#include "kernels/cpu/product_steps.inc"
#include "kernels/cpu/products/product_tiles.inc"
#endif

namespace plimsoll::kernels {

#if defined(__x86_64__)
namespace {

constexpr int kRows = 12, kVectors = 2, kWidth = 16;
constexpr int kColumns = kVectors * kWidth;
constexpr std::int64_t kStep = ProductNumbers<std::uint8_t>::kStep;

// The instruction multiplies bytes without signs by bytes with them. Where both have signs, or
// none, the left ones lie with their highest bit turned: 128 more than they are, or, read with
// signs, 128 less. Every sum of a column is then off by 128 times the sum of the column.
template <bool kLhsHasSign, bool kRhsHasSign>
struct ByteLanes {
  using T = std::uint8_t;
  using Sum = std::uint32_t;
  using Row = __m512i;
  typedef std::uint32_t Sums __attribute__((vector_size(64)));
  static constexpr std::int64_t kStep = 4;
  static constexpr int kWidth = 16;
  static constexpr bool kNarrows = true;
  static constexpr bool kCorrects = kLhsHasSign == kRhsHasSign;

  PLIMSOLL_INLINE static Row load_row(const T* from) { return _mm512_loadu_si512(from); }
  PLIMSOLL_INLINE static Sums load(const Sum* from) { return (Sums)_mm512_loadu_si512(from); }
  PLIMSOLL_INLINE static void store(Sum* to, const Sums& x) { _mm512_storeu_si512(to, (__m512i)x); }
  PLIMSOLL_INLINE static void store_narrowed(T* to, const Sums& x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)x));
  }
  PLIMSOLL_INLINE static Sums add_product(const T* a, const Row& row, const Sums& sums) {
    std::int32_t step;
    std::memcpy(&step, a, sizeof step);
    return add(_mm512_set1_epi32(step), row, sums);
  }
  PLIMSOLL_INLINE static Sums correct(const Row& row, const Sums& off) {
    return add(_mm512_set1_epi32(0x01010101), row, off);
  }
  PLIMSOLL_INLINE static Sums corrected(const Sums& sums, const Sums& off) {
    return kRhsHasSign ? sums - (off << 7) : sums + (off << 7);
  }

 private:
  // The right bytes have signs, or else the left ones have, as they lie.
  PLIMSOLL_INLINE static Sums add(const __m512i& left, const Row& row, const Sums& sums) {
    return (Sums)(kRhsHasSign ? _mm512_dpbusd_epi32((__m512i)sums, left, row)
                              : _mm512_dpbusd_epi32((__m512i)sums, row, left));
  }
};

PLIMSOLL_VNNI void pack_bytes(const std::uint8_t* from, std::int64_t stride,
                              std::int64_t depth_stride, std::int64_t count, std::int64_t width,
                              std::int64_t depth, std::uint8_t* to) {
  for (std::int64_t i = 0; i < width; i += kWidth) {
    const __mmask16 lanes = first_lanes(count - i), wanted = first_lanes(width - i);
    if (stride == 1 && depth_stride != 1) {
      for (std::int64_t d = 0; d < depth; d += kStep) {
        const __m512i step =
            depth - d >= kStep
                ? step_of(from + d * depth_stride + i, depth_stride, kStep, lanes)
                : step_of(from + d * depth_stride + i, depth_stride, depth - d, lanes);
        _mm512_mask_storeu_epi32(to + d * width + i * kStep, wanted, step);
      }
      continue;
    }
    for (std::int64_t d = 0; d < depth; d += kStep * kWidth) {
      __m512i v[16];
      const std::int64_t numbers = std::min(depth - d, kStep * kWidth);
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        v[r] =
            i + r < count ? some_of(from + (i + r) * stride + d, numbers) : _mm512_setzero_si512();
      }
      turn(v);
      const std::int64_t steps = (numbers + kStep - 1) / kStep;
#pragma GCC unroll 16
      for (int s = 0; s < 16; ++s) {
        if (s < steps) {
          _mm512_mask_storeu_epi32(to + (d + s * kStep) * width + i * kStep, wanted, v[s]);
        }
      }
    }
  }
}

// Of which every highest bit is turned.
PLIMSOLL_VNNI void pack_turned_bytes(const std::uint8_t* from, std::int64_t stride,
                                     std::int64_t depth_stride, std::int64_t count,
                                     std::int64_t width, std::int64_t depth, std::uint8_t* to) {
  pack_bytes(from, stride, depth_stride, count, width, depth, to);
  const std::int64_t size = width * packed_depth<std::uint8_t>(depth);
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0x80808080));
  for (std::int64_t i = 0; i < size; i += 64) {
    const __mmask16 lanes = first_lanes((size - i) / kStep);
    _mm512_mask_storeu_epi32(to + i, lanes,
                             _mm512_xor_si512(_mm512_maskz_loadu_epi32(lanes, to + i), high));
  }
}

template <typename Lanes>
PLIMSOLL_VNNI void multiply_bytes(const std::uint8_t* a, const std::uint8_t* b, std::int64_t rows,
                                  std::int64_t columns, std::int64_t depth,
                                  const ProductTile<std::uint8_t>& c) {
  multiply<Lanes, kRows, kVectors>(a, b, rows, columns, depth, c);
}

template <typename Lanes>
PLIMSOLL_VNNI void multiply_prepared_bytes(const std::uint8_t* a, const std::uint8_t* b,
                                           std::int64_t rows, std::int64_t columns,
                                           std::int64_t depth, const ProductTile<std::uint8_t>& c) {
  multiply_prepared<Lanes, kRows, kVectors>(a, b, rows, columns, depth, c);
}

template <bool kLhsHasSign, bool kRhsHasSign>
const ProductLoops<std::uint8_t>* loops_by_vectors() {
  using Lanes = ByteLanes<kLhsHasSign, kRhsHasSign>;
  static constexpr ProductLoops<std::uint8_t> kLoops = {
      kRows,
      kColumns,
      pack_bytes,
      nullptr,
      multiply_bytes<Lanes>,
      multiply_prepared_bytes<Lanes>,
      nullptr,
      nullptr,
      0,
      false,
      4,
      Lanes::kCorrects ? pack_turned_bytes : nullptr};
  return &kLoops;
}

}  // namespace
#endif

const ProductLoops<std::uint8_t>* byte_product_loops(bool lhs_has_sign, bool rhs_has_sign,
                                                     ProductInstructions instructions) {
#if defined(__x86_64__)
  static const bool has_products =
      __builtin_cpu_supports("avx512vnni") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (!has_products) return nullptr;
  if (instructions == ProductInstructions::amx) {
    return amx_byte_loops(lhs_has_sign, rhs_has_sign, pack_bytes);
  }
  if (instructions == ProductInstructions::avx512) {
    if (lhs_has_sign) {
      return rhs_has_sign ? loops_by_vectors<true, true>() : loops_by_vectors<true, false>();
    }
    return rhs_has_sign ? loops_by_vectors<false, true>() : loops_by_vectors<false, false>();
  }
#endif
  static_cast<void>(lhs_has_sign);
  static_cast<void>(rhs_has_sign);
  static_cast<void>(instructions);
  return nullptr;
}

const ProductLoops<std::uint8_t>* byte_product_loops(bool lhs_has_sign, bool rhs_has_sign) {
  const auto* const tiles =
      byte_product_loops(lhs_has_sign, rhs_has_sign, ProductInstructions::amx);
  if (tiles != nullptr) return tiles;
  return byte_product_loops(lhs_has_sign, rhs_has_sign, ProductInstructions::avx512);
}

template <>
const ProductLoops<std::uint8_t>* product_loops<std::uint8_t>(ProductInstructions instructions) {
  return byte_product_loops(false, false, instructions);
}

template <>
const ProductLoops<std::uint8_t>& product_loops<std::uint8_t>() {
  return *byte_product_loops(false, false);
}

}  // namespace plimsoll::kernels
