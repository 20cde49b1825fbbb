// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_loops.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "runtime/base/math/parts.h"

// Compiled with contraction: a * b + c on vectors is one rounding where the machine has it.
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

// The loops are written once, in plain C++ over vectors of kLanes, and compiled for several
// instruction sets; tiles of c stay in registers over the whole depth, so that a product reads its
// operands once per tile. All versions sum in the order of the depth. Fused multiply-adds round
// once where others round twice: that is why results of attention may differ between machines with
// and without them, and never between runs on one.

namespace plimsoll::kernels {
namespace {

// W numbers as a value type of runtime/base/math/scalar.h, as far as exp asks.
template <int W>
struct Vectors {
  typedef float Floats __attribute__((vector_size(4 * W)));
  typedef std::int32_t Ints __attribute__((vector_size(4 * W)));
  typedef std::uint32_t UnsignedInts __attribute__((vector_size(4 * W)));
  typedef float Unaligned __attribute__((vector_size(4 * W), aligned(4), may_alias));
};

template <int W>
struct MaskLanes {
  typename Vectors<W>::Ints value;
};
template <int W>
struct IntLanes {
  typename Vectors<W>::Ints value;
};
template <int W>
struct FloatLanes {
  typename Vectors<W>::Floats value;
};

template <int W>
PLIMSOLL_INLINE FloatLanes<W> like(const FloatLanes<W>&, float x) {
  return {typename Vectors<W>::Floats{} + x};
}
template <int W>
PLIMSOLL_INLINE IntLanes<W> like(const IntLanes<W>&, std::int32_t x) {
  return {typename Vectors<W>::Ints{} + x};
}
template <int W>
PLIMSOLL_INLINE FloatLanes<W> operator+(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value + b.value};
}
template <int W>
PLIMSOLL_INLINE FloatLanes<W> operator-(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value - b.value};
}
template <int W>
PLIMSOLL_INLINE FloatLanes<W> operator*(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value * b.value};
}
template <int W>
PLIMSOLL_INLINE FloatLanes<W> fma(const FloatLanes<W>& a, const FloatLanes<W>& b,
                                  const FloatLanes<W>& c) {
  return {a.value * b.value + c.value};
}
template <int W>
PLIMSOLL_INLINE MaskLanes<W> operator<(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value < b.value};
}
template <int W>
PLIMSOLL_INLINE MaskLanes<W> operator>(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value > b.value};
}
template <int W>
PLIMSOLL_INLINE MaskLanes<W> operator>=(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value >= b.value};
}
template <int W>
PLIMSOLL_INLINE MaskLanes<W> operator==(const FloatLanes<W>& a, const FloatLanes<W>& b) {
  return {a.value == b.value};
}
template <int W>
PLIMSOLL_INLINE FloatLanes<W> select(const MaskLanes<W>& m, const FloatLanes<W>& a,
                                     const FloatLanes<W>& b) {
  return {m.value ? a.value : b.value};
}
template <int W>
PLIMSOLL_INLINE IntLanes<W> operator+(const IntLanes<W>& a, const IntLanes<W>& b) {
  // Lanes that nobody selects afterwards may wrap around.
  using Unsigned = typename Vectors<W>::UnsignedInts;
  return {(typename Vectors<W>::Ints)((Unsigned)a.value + (Unsigned)b.value)};
}
template <int W>
PLIMSOLL_INLINE IntLanes<W> operator-(const IntLanes<W>& a, const IntLanes<W>& b) {
  return {a.value - b.value};
}
template <int W>
PLIMSOLL_INLINE IntLanes<W> operator<<(const IntLanes<W>& a, int n) {
  return {a.value << n};
}
template <int W>
PLIMSOLL_INLINE IntLanes<W> operator>>(const IntLanes<W>& a, int n) {
  return {a.value >> n};
}
template <int W>
PLIMSOLL_INLINE IntLanes<W> bits_of(const FloatLanes<W>& a) {
  return {(typename Vectors<W>::Ints)a.value};
}
template <int W>
PLIMSOLL_INLINE FloatLanes<W> from_bits(const IntLanes<W>& a) {
  return {(typename Vectors<W>::Floats)a.value};
}

template <int W>
PLIMSOLL_INLINE FloatLanes<W> load(const float* from) {
  return {*reinterpret_cast<const typename Vectors<W>::Unaligned*>(from)};
}
template <int W>
PLIMSOLL_INLINE void store(float* to, const FloatLanes<W>& x) {
  *reinterpret_cast<typename Vectors<W>::Unaligned*>(to) = x.value;
}

// Swaps the upper right D x D blocks with the lower left ones, one pair of rows.
template <int W, int D, bool kHigh, int... I>
PLIMSOLL_INLINE auto blend(const typename Vectors<W>::Floats& a,
                           const typename Vectors<W>::Floats& b, std::integer_sequence<int, I...>) {
  return kHigh ? __builtin_shufflevector(a, b, ((I / D) % 2 == 0 ? I + D : W + I)...)
               : __builtin_shufflevector(a, b, ((I / D) % 2 == 0 ? I : W + I - D)...);
}

template <int W, int D>
PLIMSOLL_INLINE void transpose_blocks(typename Vectors<W>::Floats (&rows)[W]) {
  if constexpr (D > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) {
      if ((i & D) != 0) continue;
      constexpr auto kLane = std::make_integer_sequence<int, W>();
      const typename Vectors<W>::Floats a = rows[i], b = rows[i + D];
      rows[i] = blend<W, D, false>(a, b, kLane);
      rows[i + D] = blend<W, D, true>(a, b, kLane);
    }
    transpose_blocks<W, D / 2>(rows);
  }
}

template <int W>
PLIMSOLL_INLINE void transpose(const float* from, std::int64_t from_stride, float* to,
                               std::int64_t to_stride) {
  for (int i = 0; i < kLanes; i += W) {
    for (int j = 0; j < kLanes; j += W) {
      typename Vectors<W>::Floats rows[W];
#pragma GCC unroll 16
      for (int k = 0; k < W; ++k) rows[k] = load<W>(from + (i + k) * from_stride + j).value;
      transpose_blocks<W, W / 2>(rows);
#pragma GCC unroll 16
      for (int k = 0; k < W; ++k) store<W>(to + (j + k) * to_stride + i, {rows[k]});
    }
  }
}

template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_tile(float* c, std::int64_t c_stride, const StridedMatrix& a,
                                   const float* b, std::int64_t b_stride, std::int64_t depth,
                                   bool add) {
  typename Vectors<W>::Floats sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = add ? load<W>(c + i * c_stride + v * W).value : typename Vectors<W>::Floats{};
    }
  }
  const float* from = a.data;
  for (std::int64_t k = 0; k < depth; ++k) {
    typename Vectors<W>::Floats row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load<W>(b + v * W).value;
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const float factor = from[i * a.row];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = factor * row[v] + sums[i][v];
    }
    from += a.column;
    b += b_stride;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      store<W>(c + i * c_stride + v * W, {sums[i][v]});
    }
  }
}

template <int W, int kRows, int kVectors>
PLIMSOLL_INLINE void multiply_panel(float* c, std::int64_t c_stride, StridedMatrix a,
                                    const float* b, std::int64_t b_stride, std::int64_t rows,
                                    std::int64_t depth, bool add) {
  const auto advance = [&](std::int64_t done) {
    c += done * c_stride;
    a.data += done * a.row;
    rows -= done;
  };
  while (rows >= kRows) {
    multiply_tile<W, kRows, kVectors>(c, c_stride, a, b, b_stride, depth, add);
    advance(kRows);
  }
  if constexpr (kRows > 4) {
    if (rows >= 4) {
      multiply_tile<W, 4, kVectors>(c, c_stride, a, b, b_stride, depth, add);
      advance(4);
    }
  }
  while (rows > 0) {
    multiply_tile<W, 1, kVectors>(c, c_stride, a, b, b_stride, depth, add);
    advance(1);
  }
}

template <int W, int kRows>
PLIMSOLL_INLINE void multiply(float* c, std::int64_t c_stride, const StridedMatrix& a,
                              const float* b, std::int64_t b_stride, std::int64_t rows,
                              std::int64_t columns, std::int64_t depth, bool add) {
  std::int64_t j = 0;
  for (; j + 2 * W <= columns; j += 2 * W) {
    multiply_panel<W, kRows, 2>(c + j, c_stride, a, b + j, b_stride, rows, depth, add);
  }
  for (; j < columns; j += W) {
    multiply_panel<W, kRows, 1>(c + j, c_stride, a, b + j, b_stride, rows, depth, add);
  }
}

// A column whose scores are all -inf has powers of zero, and not of NaN, until a greater one comes.
template <int W>
PLIMSOLL_INLINE FloatLanes<W> finite_shift(const FloatLanes<W>& greatest) {
  const auto lowest = like(greatest, -std::numeric_limits<float>::infinity());
  return select(greatest == lowest, like(greatest, 0.0f), greatest);
}

// exp(x) for x <= 0, NaN for NaN, zero below kZeroPower; within 1.5 ulp. As math::parts::exp, less
// what only other arguments need: the upper bound, subnormal results, the last half ulp.
template <int W>
PLIMSOLL_INLINE FloatLanes<W> exp_of_nonpositive(const FloatLanes<W>& x) {
  static constexpr float kSeries[] = {1.0f,          1.0f,           0x1.fffffcp-2f, 0x1.55548ap-3f,
                                      0x1.55585p-5f, 0x1.123ec4p-7f, 0x1.6ac326p-10f};
  const auto rounder = like(x, math::parts::kRounder);
  const auto shifted = fma(x, like(x, 0x1.715476p+0f), rounder);
  const auto count = shifted - rounder;
  const auto rest = fma(count, like(x, -0x1.7f7d1cp-20f), fma(count, like(x, -0x1.62e4p-1f), x));
  // The low bits of `shifted` are the count; what stands above them is shifted out.
  const auto result =
      from_bits(bits_of(math::parts::horner(rest, kSeries)) + (bits_of(shifted) << 23));
  return select(x < like(x, kZeroPower), like(x, 0.0f), result);
}

template <int W>
PLIMSOLL_INLINE void soften(float* scores, std::int64_t keys, std::int64_t columns, float* greatest,
                            float* sum, float* correction) {
  for (std::int64_t j = 0; j < columns; j += W) {
    const auto before = load<W>(greatest + j);
    auto now = before;
    for (std::int64_t k = 0; k < keys; ++k) {
      const auto score = load<W>(scores + k * columns + j);
      now = select(now >= score, now, score);
    }
    const auto shift = finite_shift(now);
    auto total = like(before, 0.0f);
    for (std::int64_t k = 0; k < keys; ++k) {
      float* at = scores + k * columns + j;
      const auto power = exp_of_nonpositive(load<W>(at) - shift);
      store<W>(at, power);
      total = total + power;
    }
    const auto old = exp_of_nonpositive(before - shift);
    store<W>(greatest + j, now);
    store<W>(sum + j, load<W>(sum + j) * old + total);
    store<W>(correction + j, old);
  }
}

template <int W>
PLIMSOLL_INLINE void differentiate(float* scores, float* slopes, std::int64_t keys,
                                   std::int64_t columns, const float* greatest,
                                   const float* inverse_sum, const float* delta,
                                   float gradient_scale) {
  for (std::int64_t j = 0; j < columns; j += W) {
    const auto shift = load<W>(greatest + j), inverse = load<W>(inverse_sum + j);
    const auto offset = load<W>(delta + j);
    const auto outer = like(shift, gradient_scale);
    for (std::int64_t k = 0; k < keys; ++k) {
      float* score = scores + k * columns + j;
      float* slope = slopes + k * columns + j;
      const auto p = exp_of_nonpositive(load<W>(score) - shift) * inverse;
      store<W>(score, p);
      store<W>(slope, p * (load<W>(slope) - offset) * outer);
    }
  }
}

template <int W>
PLIMSOLL_INLINE void scale(float* x, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; i += W) {
    const auto value = load<W>(x + i);
    store<W>(x + i, value * like(value, factor));
  }
}

template <int W>
PLIMSOLL_INLINE void scale_columns(float* c, std::int64_t rows, std::int64_t columns,
                                   const float* factors) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; j += W) {
      float* at = c + i * columns + j;
      store<W>(at, load<W>(at) * load<W>(factors + j));
    }
  }
}

// The loops for one instruction set: W floats a vector, tiles of R rows.
#define PLIMSOLL_ATTENTION_LOOPS(name, attributes, W, R)                                           \
  attributes void multiply_##name(float* c, std::int64_t c_stride, StridedMatrix a,                \
                                  const float* b, std::int64_t b_stride, std::int64_t rows,        \
                                  std::int64_t columns, std::int64_t depth, bool add) {            \
    multiply<W, R>(c, c_stride, a, b, b_stride, rows, columns, depth, add);                        \
  }                                                                                                \
  attributes void transpose_##name(const float* from, std::int64_t from_stride, float* to,         \
                                   std::int64_t to_stride) {                                       \
    transpose<W>(from, from_stride, to, to_stride);                                                \
  }                                                                                                \
  attributes void scale_##name(float* x, std::int64_t count, float factor) {                       \
    scale<W>(x, count, factor);                                                                    \
  }                                                                                                \
  attributes void soften_##name(float* scores, std::int64_t keys, std::int64_t columns,            \
                                float* greatest, float* sum, float* correction) {                  \
    soften<W>(scores, keys, columns, greatest, sum, correction);                                   \
  }                                                                                                \
  attributes void differentiate_##name(                                                            \
      float* scores, float* slopes, std::int64_t keys, std::int64_t columns,                       \
      const float* greatest, const float* inverse_sum, const float* delta, float gradient_scale) { \
    differentiate<W>(scores, slopes, keys, columns, greatest, inverse_sum, delta, gradient_scale); \
  }                                                                                                \
  attributes void scale_columns_##name(float* c, std::int64_t rows, std::int64_t columns,          \
                                       const float* factors) {                                     \
    scale_columns<W>(c, rows, columns, factors);                                                   \
  }                                                                                                \
  constexpr AttentionLoops kLoops_##name = {multiply_##name,      transpose_##name,                \
                                            scale_##name,         soften_##name,                   \
                                            differentiate_##name, scale_columns_##name};

PLIMSOLL_ATTENTION_LOOPS(baseline, __attribute__((flatten)), 4, 4)
#if defined(__x86_64__)
PLIMSOLL_ATTENTION_LOOPS(avx2, __attribute__((flatten, target("avx2,fma"))), 8, 4)
PLIMSOLL_ATTENTION_LOOPS(avx512, __attribute__((flatten, target("avx512f"))), 16, 8)
#endif

}  // namespace

const AttentionLoops& attention_loops() {
#if defined(__x86_64__)
  static const AttentionLoops* const loops =
      __builtin_cpu_supports("avx512f")                                 ? &kLoops_avx512
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kLoops_avx2
                                                                        : &kLoops_baseline;
  return *loops;
#else
  return kLoops_baseline;
#endif
}

}  // namespace plimsoll::kernels
