// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector_loops.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/cpu/clones.h"

#if defined(__x86_64__)
// GCC 12 finds its own header's undefined registers uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace plimsoll::kernels {
namespace {

// A vector's columns of so many rows: their sums stay in registers while depth passes, and every
// vector of b is read once for all of them.
template <int kRows, typename T>
[[gnu::always_inline]] inline void multiply_rows(T* acc, const T* a, const T* b, int depth) {
  using Vector [[gnu::vector_size(64), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
  constexpr int kLanes = 64 / static_cast<int>(sizeof(T));
  for (int j = 0; j < kTileColumns; j += kLanes) {
    Vector sums[kRows];
    for (int r = 0; r < kRows; ++r) {
      sums[r] = *reinterpret_cast<const Vector*>(acc + r * kTileColumns + j);
    }
    for (int k = 0; k < depth; ++k) {
      const Vector from = *reinterpret_cast<const Vector*>(b + k * kTileColumns + j);
      for (int r = 0; r < kRows; ++r) sums[r] += a[r * kTileDepth + k] * from;
    }
    for (int r = 0; r < kRows; ++r) {
      *reinterpret_cast<Vector*>(acc + r * kTileColumns + j) = sums[r];
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void multiply_tile_loop(T* acc, const T* a, const T* b, int rows,
                                                      int depth) {
  constexpr int kRows = 4;
  int i = 0;
  for (; i + kRows <= rows; i += kRows) {
    multiply_rows<kRows>(acc + i * kTileColumns, a + i * kTileDepth, b, depth);
  }
  for (; i < rows; ++i) multiply_rows<1>(acc + i * kTileColumns, a + i * kTileDepth, b, depth);
}

[[gnu::always_inline]] inline float widened(float x) { return x; }
[[gnu::always_inline]] inline float widened(Bfloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

// Lanes stay in registers while the rows pass.
template <typename T, typename F>
[[gnu::always_inline]] inline void rows_loop(float* y, const T* x, const std::int64_t* offsets,
                                             int rows, std::int64_t count, F combine) {
  constexpr int kLanes = 16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    float lanes[kLanes];
    for (int j = 0; j < kLanes; ++j) lanes[j] = y[i + j];
    for (int r = 0; r < rows; ++r) {
      const T* from = x + offsets[r] + i;
      for (int j = 0; j < kLanes; ++j) lanes[j] = combine(lanes[j], widened(from[j]));
    }
    for (int j = 0; j < kLanes; ++j) y[i + j] = lanes[j];
  }
  for (; i < count; ++i) {
    for (int r = 0; r < rows; ++r) y[i] = combine(y[i], widened(x[offsets[r] + i]));
  }
}

}  // namespace

PLIMSOLL_CLONES void multiply_tile(float* acc, const float* a, const float* b, int rows,
                                   int depth) {
  multiply_tile_loop(acc, a, b, rows, depth);
}

PLIMSOLL_CLONES void multiply_tile(double* acc, const double* a, const double* b, int rows,
                                   int depth) {
  multiply_tile_loop(acc, a, b, rows, depth);
}

PLIMSOLL_CLONES void multiply_tile(std::uint32_t* acc, const std::uint32_t* a,
                                   const std::uint32_t* b, int rows, int depth) {
  multiply_tile_loop(acc, a, b, rows, depth);
}

PLIMSOLL_CLONES void multiply_tile(std::uint64_t* acc, const std::uint64_t* a,
                                   const std::uint64_t* b, int rows, int depth) {
  multiply_tile_loop(acc, a, b, rows, depth);
}

PLIMSOLL_CLONES float dot_product(const float* x, const float* y, std::int64_t count) {
  constexpr int kLanes = 64;
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += x[i + j] * y[i + j];
  }
  for (int j = 0; i + j < count; ++j) lanes[j] += x[i + j] * y[i + j];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  }
  return lanes[0];
}

// On bits, with a select in the place of a branch, so that the loop becomes vectors.
PLIMSOLL_CLONES void to_bf16(const float* from, Bfloat16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t near = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (bits >> 16) | 0x40u;
    to[i].bits = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : near);
  }
}

PLIMSOLL_CLONES void from_bf16(const Bfloat16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = widened(from[i]);
}

namespace {

// As Float16 converts, without its branches.
PLIMSOLL_CLONES void narrow_by_bits(const float* from, Float16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t size = bits & 0x7fffffffU;
    const std::uint32_t normal = (size + 0xfffU + ((size >> 13) & 1U) - 0x38000000U) >> 13;
    const float shifted = std::bit_cast<float>(size) + 0.5F;
    const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
    std::uint32_t half = size < 0x38800000U ? subnormal : normal;
    half = size >= 0x477ff000U ? 0x7c00U : half;
    half = size > 0x7f800000U ? 0x7e00U | ((size >> 13) & 0x3ffU) : half;
    to[i].bits = static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000U));
  }
}

// In f32's places, the exponent is off by the difference of the biases.
PLIMSOLL_CLONES void widen_by_bits(const Float16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t half = from[i].bits;
    const std::uint32_t size = (half & 0x7fffU) << 13;
    const std::uint32_t number =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) * 0x1p112F);
    const std::uint32_t bits = size >= 0x0f800000U ? size | 0x7f800000U : number;
    to[i] = std::bit_cast<float>(bits | ((half & 0x8000U) << 16));
  }
}

// By the machine's instructions: how many of the first elements were converted, to the same bits.
#if defined(__x86_64__)
constexpr int kF16Lanes = 8;

[[gnu::target("avx2,f16c")]] std::int64_t narrow_vectors(const float* from, Float16* to,
                                                         std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kF16Lanes <= count; i += kF16Lanes) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  return i;
}

[[gnu::target("avx2,f16c")]] std::int64_t widen_vectors(const Float16* from, float* to,
                                                        std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kF16Lanes <= count; i += kF16Lanes) {
    const __m256 wide =
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm256_storeu_ps(to + i, wide);
    // The instruction makes NaNs quiet.
    if (_mm256_movemask_ps(_mm256_cmp_ps(wide, wide, _CMP_UNORD_Q)) != 0) {
      widen_by_bits(from + i, to + i, kF16Lanes);
    }
  }
  return i;
}

bool converts_f16() {
  static const bool does =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  return does;
}
#else
std::int64_t narrow_vectors(const float*, Float16*, std::int64_t) { return 0; }
std::int64_t widen_vectors(const Float16*, float*, std::int64_t) { return 0; }
bool converts_f16() { return false; }
#endif

}  // namespace

void to_f16(const float* from, Float16* to, std::int64_t count) {
  const std::int64_t done = converts_f16() ? narrow_vectors(from, to, count) : 0;
  narrow_by_bits(from + done, to + done, count - done);
}

void from_f16(const Float16* from, float* to, std::int64_t count) {
  const std::int64_t done = converts_f16() ? widen_vectors(from, to, count) : 0;
  widen_by_bits(from + done, to + done, count - done);
}

PLIMSOLL_CLONES void from_bytes(const std::int8_t* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

PLIMSOLL_CLONES void from_bytes(const std::uint8_t* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

PLIMSOLL_CLONES void add_whole(std::uint32_t* y, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] += static_cast<std::uint32_t>(static_cast<std::int32_t>(x[i]));
  }
}

PLIMSOLL_CLONES void add_to(float* y, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

PLIMSOLL_CLONES void add_rows(float* y, const float* x, const std::int64_t* offsets, int rows,
                              std::int64_t count) {
  rows_loop(y, x, offsets, rows, count,
            [](float a, float b) __attribute__((always_inline)) { return a + b; });
}

PLIMSOLL_CLONES void add_rows(float* y, const Bfloat16* x, const std::int64_t* offsets, int rows,
                              std::int64_t count) {
  rows_loop(y, x, offsets, rows, count,
            [](float a, float b) __attribute__((always_inline)) { return a + b; });
}

namespace {

// Of equal numbers only the zeros differ, in their sign.
__attribute__((always_inline)) inline float greater_one(float a, float b) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(a) & std::bit_cast<std::uint32_t>(b);
  const float number = a == b ? std::bit_cast<float>(bits) : (a > b ? a : b);
  return a != a || b != b ? std::numeric_limits<float>::quiet_NaN() : number;
}

__attribute__((always_inline)) inline float smaller_one(float a, float b) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(a) | std::bit_cast<std::uint32_t>(b);
  const float number = a == b ? std::bit_cast<float>(bits) : (a < b ? a : b);
  return a != a || b != b ? std::numeric_limits<float>::quiet_NaN() : number;
}

template <typename F>
__attribute__((always_inline)) inline void rows_at(float* y, const float* x, const std::int64_t* to,
                                                   const std::int64_t* from, std::int64_t rows,
                                                   std::int64_t count, F&& combine) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* __restrict const a = y + to[r];
    const float* __restrict const b = x + from[r];
    for (std::int64_t i = 0; i < count; ++i) a[i] = combine(a[i], b[i]);
  }
}

}  // namespace

PLIMSOLL_CLONES void maximum_rows(float* y, const float* x, const std::int64_t* offsets, int rows,
                                  std::int64_t count) {
  rows_loop(y, x, offsets, rows, count,
            [](float a, float b) __attribute__((always_inline)) { return greater_one(a, b); });
}

PLIMSOLL_CLONES void maximum_rows(float* y, const Bfloat16* x, const std::int64_t* offsets,
                                  int rows, std::int64_t count) {
  rows_loop(y, x, offsets, rows, count,
            [](float a, float b) __attribute__((always_inline)) { return greater_one(a, b); });
}

PLIMSOLL_CLONES void add_at(float* y, const float* x, const std::int64_t* to,
                            const std::int64_t* from, std::int64_t rows, std::int64_t count) {
  rows_at(y, x, to, from, rows, count,
          [](float a, float b) __attribute__((always_inline)) { return a + b; });
}

PLIMSOLL_CLONES void maximum_at(float* y, const float* x, const std::int64_t* to,
                                const std::int64_t* from, std::int64_t rows, std::int64_t count) {
  rows_at(y, x, to, from, rows, count,
          [](float a, float b) __attribute__((always_inline)) { return greater_one(a, b); });
}

PLIMSOLL_CLONES void minimum_at(float* y, const float* x, const std::int64_t* to,
                                const std::int64_t* from, std::int64_t rows, std::int64_t count) {
  rows_at(y, x, to, from, rows, count,
          [](float a, float b) __attribute__((always_inline)) { return smaller_one(a, b); });
}

namespace {

#if defined(__x86_64__)
// Eight blocks to a register, a counter word in the low half of each element; the high halves hold
// what multiplications leave and do not read. Returns how many of the blocks are done: not those
// around a carry into the counter's high half.
__attribute__((target("avx512f"))) std::int64_t philox_avx512(const philox::State& state,
                                                              std::int64_t blocks, std::byte* out) {
  constexpr int kLanes = 8;
  const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
  const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i second = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  std::int64_t done = 0;
  for (; done + kLanes <= blocks; done += kLanes) {
    const philox::State at = philox::advance(state, static_cast<std::uint64_t>(done));
    if (at.counter_low > ~std::uint64_t{0} - kLanes) break;
    const __m512i counter =
        _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(at.counter_low)), lanes);
    __m512i c0 = counter, c1 = _mm512_srli_epi64(counter, 32);
    __m512i c2 = _mm512_set1_epi64(static_cast<long long>(at.counter_high));
    __m512i c3 = _mm512_srli_epi64(c2, 32);
    auto k0 = static_cast<std::uint32_t>(state.key);
    auto k1 = static_cast<std::uint32_t>(state.key >> 32);
    for (int round = 0; round < 10; ++round) {
      const __m512i p0 = _mm512_mul_epu32(m0, c0), p1 = _mm512_mul_epu32(m1, c2);
      c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1),
                            _mm512_set1_epi64(static_cast<long long>(k0)));
      c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3),
                            _mm512_set1_epi64(static_cast<long long>(k1)));
      c1 = p1;
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    // The low half of the first word's element and that of the second make one of 64 bits.
    const __m512i low = _mm512_mask_blend_epi32(0xaaaa, c0, _mm512_slli_epi64(c1, 32));
    const __m512i high = _mm512_mask_blend_epi32(0xaaaa, c2, _mm512_slli_epi64(c3, 32));
    std::byte* to = out + 16 * done;
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, first, high));
    _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi64(low, second, high));
  }
  return done;
}
#endif

PLIMSOLL_CLONES void philox_any(const philox::State& state, std::int64_t blocks, void* out) {
  constexpr int kLanes = 16;
  std::byte* to = static_cast<std::byte*>(out);
  std::int64_t done = 0;
  for (; done + kLanes <= blocks; done += kLanes, to += 16 * kLanes) {
    std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int i = 0; i < kLanes; ++i) {
      const philox::State at = philox::advance(state, static_cast<std::uint64_t>(done + i));
      c0[i] = static_cast<std::uint32_t>(at.counter_low);
      c1[i] = static_cast<std::uint32_t>(at.counter_low >> 32);
      c2[i] = static_cast<std::uint32_t>(at.counter_high);
      c3[i] = static_cast<std::uint32_t>(at.counter_high >> 32);
    }
    std::uint32_t k0 = static_cast<std::uint32_t>(state.key);
    std::uint32_t k1 = static_cast<std::uint32_t>(state.key >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int i = 0; i < kLanes; ++i) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[i];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2[i];
        c0[i] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
        c1[i] = static_cast<std::uint32_t>(p1);
        c2[i] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
        c3[i] = static_cast<std::uint32_t>(p0);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    std::uint32_t words[4 * kLanes];
    for (int i = 0; i < kLanes; ++i) {
      words[4 * i] = c0[i];
      words[4 * i + 1] = c1[i];
      words[4 * i + 2] = c2[i];
      words[4 * i + 3] = c3[i];
    }
    std::memcpy(to, words, sizeof(words));
  }
  for (; done < blocks; ++done, to += 16) {
    const philox::Block words =
        philox::block(philox::advance(state, static_cast<std::uint64_t>(done)));
    std::memcpy(to, words.data(), 16);
  }
}

}  // namespace

void philox_words(const philox::State& state, std::int64_t blocks, void* out) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0)
    done = philox_avx512(state, blocks, static_cast<std::byte*>(out));
#endif
  philox_any(philox::advance(state, static_cast<std::uint64_t>(done)), blocks - done,
             static_cast<std::byte*>(out) + 16 * done);
}

}  // namespace plimsoll::kernels
