// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_loops.h"

#include <algorithm>
#include <type_traits>
#include <utility>

// Compiled with contraction: a * b + c on vectors is one rounding where the machine has it.
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

#include "kernels/cpu/products/product_tiles.inc"

namespace plimsoll::kernels {
namespace {

template <typename T, int W>
struct Lanes {
  typedef T Vector __attribute__((vector_size(sizeof(T) * W)));
  typedef T Unaligned __attribute__((vector_size(sizeof(T) * W), aligned(sizeof(T)), may_alias));
};

template <typename T, int W>
PLIMSOLL_INLINE typename Lanes<T, W>::Vector load(const T* from) {
  return *reinterpret_cast<const typename Lanes<T, W>::Unaligned*>(from);
}
template <typename T, int W>
PLIMSOLL_INLINE void store(T* to, const typename Lanes<T, W>::Vector& x) {
  *reinterpret_cast<typename Lanes<T, W>::Unaligned*>(to) = x;
}

// The low or high halves of every four numbers of a and b, one of a and one of b in turns, and the
// low or high pairs.
template <typename T, int W, int kHigh, int... I>
PLIMSOLL_INLINE auto zip(const typename Lanes<T, W>::Vector& a,
                         const typename Lanes<T, W>::Vector& b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 4 / 2 + 2 * kHigh + (I % 2) * W)...);
}
template <typename T, int W, int kHigh, int... I>
PLIMSOLL_INLINE auto pair_up(const typename Lanes<T, W>::Vector& a,
                             const typename Lanes<T, W>::Vector& b,
                             std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (I / 4 * 4 + I % 2 + 2 * kHigh + I % 4 / 2 * W)...);
}
template <typename T, int W, int kPart, int... I>
PLIMSOLL_INLINE typename Lanes<T, 4>::Vector four_of(const typename Lanes<T, W>::Vector& a,
                                                     std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, a, (4 * kPart + I)...);
}

// Four rows over W steps of the depth, by squares of 4 x 4 that are turned in registers.
template <typename T, int W, int... kPart>
PLIMSOLL_INLINE void turn_four_rows(const T* const (&rows)[4], std::int64_t d, std::int64_t width,
                                    T* to, std::integer_sequence<int, kPart...>) {
  using Vector = typename Lanes<T, W>::Vector;
  constexpr auto kLanes = std::make_integer_sequence<int, W>();
  const Vector a = load<T, W>(rows[0] + d), b = load<T, W>(rows[1] + d);
  const Vector c = load<T, W>(rows[2] + d), e = load<T, W>(rows[3] + d);
  const Vector ab[] = {zip<T, W, 0>(a, b, kLanes), zip<T, W, 1>(a, b, kLanes)};
  const Vector ce[] = {zip<T, W, 0>(c, e, kLanes), zip<T, W, 1>(c, e, kLanes)};
  const Vector turned[] = {
      pair_up<T, W, 0>(ab[0], ce[0], kLanes), pair_up<T, W, 1>(ab[0], ce[0], kLanes),
      pair_up<T, W, 0>(ab[1], ce[1], kLanes), pair_up<T, W, 1>(ab[1], ce[1], kLanes)};
  constexpr auto kFour = std::make_integer_sequence<int, 4>();
  ((store<T, 4>(to + (4 * kPart + 0) * width, four_of<T, W, kPart>(turned[0], kFour)),
    store<T, 4>(to + (4 * kPart + 1) * width, four_of<T, W, kPart>(turned[1], kFour)),
    store<T, 4>(to + (4 * kPart + 2) * width, four_of<T, W, kPart>(turned[2], kFour)),
    store<T, 4>(to + (4 * kPart + 3) * width, four_of<T, W, kPart>(turned[3], kFour))),
   ...);
}

template <typename T, int W>
PLIMSOLL_INLINE void pack_four_rows(const T* const (&rows)[4], std::int64_t width,
                                    std::int64_t depth, T* to) {
  constexpr auto kParts = std::make_integer_sequence<int, W / 4>();
  std::int64_t d = 0;
  for (; d + W <= depth; d += W) {
    turn_four_rows<T, W>(rows, d, width, to, kParts);
    to += W * width;
  }
  for (; d < depth; ++d) {
    for (int i = 0; i < 4; ++i) to[i] = rows[i][d];
    to += width;
  }
}

// kWidth numbers that lie together, of every step of the depth.
template <typename T, int kWidth>
PLIMSOLL_INLINE void pack_runs(const T* from, std::int64_t depth_stride, std::int64_t depth,
                               T* to) {
  constexpr int kVector = kWidth % 16 == 0 ? 16 : kWidth % 8 == 0 ? 8 : 4;
  for (std::int64_t d = 0; d < depth; ++d) {
#pragma GCC unroll 8
    for (int i = 0; i < kWidth; i += kVector) {
      store<T, kVector>(to + i, load<T, kVector>(from + i));
    }
    from += depth_stride;
    to += kWidth;
  }
}

template <typename T, int W, int kRows, int kColumns>
PLIMSOLL_INLINE void pack(const T* from, std::int64_t stride, std::int64_t depth_stride,
                          std::int64_t count, std::int64_t width, std::int64_t depth, T* to) {
  if (stride == 1 && count == width) {
    if (width == kColumns) return pack_runs<T, kColumns>(from, depth_stride, depth, to);
    if (width == kRows) return pack_runs<T, kRows>(from, depth_stride, depth, to);
  }
  if (depth_stride == 1) {
    std::int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      const T* const first = from + i * stride;
      pack_four_rows<T, W>({first, first + stride, first + 2 * stride, first + 3 * stride}, width,
                           depth, to + i);
    }
    if (i == width) return;
    for (std::int64_t d = 0; d < depth; ++d) {
      for (std::int64_t j = i; j < width; ++j) {
        to[d * width + j] = j < count ? from[j * stride + d] : T{0};
      }
    }
    return;
  }
  for (std::int64_t d = 0; d < depth; ++d) {
    for (std::int64_t i = 0; i < width; ++i) {
      to[d * width + i] = i < count ? from[i * stride + d * depth_stride] : T{0};
    }
  }
}

template <typename T, int W>
PLIMSOLL_INLINE void pack_rows(const T* const* rows, std::int64_t width, std::int64_t depth,
                               T* to) {
  for (std::int64_t i = 0; i < width; i += 4) {
    pack_four_rows<T, W>({rows[i], rows[i + 1], rows[i + 2], rows[i + 3]}, width, depth, to + i);
  }
}

// Lane i added to lane i xor kHalf.
template <int kHalf, typename Vector, int... I>
PLIMSOLL_INLINE Vector fold_lanes(const Vector& x, std::integer_sequence<int, I...>) {
  return x + __builtin_shufflevector(x, x, (I ^ kHalf)...);
}
template <int W, int kHalf, typename Vector>
PLIMSOLL_INLINE auto sum_of_lanes(const Vector& x) {
  if constexpr (kHalf == 0) {
    return x[0];
  } else {
    return sum_of_lanes<W, kHalf / 2>(fold_lanes<kHalf>(x, std::make_integer_sequence<int, W>()));
  }
}

// Vectors of W numbers, which are their own sums.
template <typename Number, int W>
struct NumberLanes {
  using T = Number;
  using Sum = Number;
  using Row = typename Lanes<T, W>::Vector;
  using Sums = Row;
  static constexpr std::int64_t kStep = 1;
  static constexpr int kWidth = W;
  static constexpr bool kNarrows = false;
  static constexpr bool kCorrects = false;

  PLIMSOLL_INLINE static Row load_row(const T* from) { return kernels::load<T, W>(from); }
  template <int kVectors>
  PLIMSOLL_INLINE static void load_rows(const T* from, std::int64_t, Row (&rows)[kVectors]) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) rows[v] = load_row(from + v * W);
  }
  PLIMSOLL_INLINE static Sums load(const T* from) { return kernels::load<T, W>(from); }
  PLIMSOLL_INLINE static void store(T* to, const Sums& x) { kernels::store<T, W>(to, x); }
  PLIMSOLL_INLINE static Sums add_product(const T* a, const Row& row, const Sums& sums) {
    return *a * row + sums;
  }
  PLIMSOLL_INLINE static Sums add_products(const Row& x, const Row& y, const Sums& sums) {
    return x * y + sums;
  }
  PLIMSOLL_INLINE static Sum sum_of(const Sums& sums) { return sum_of_lanes<W, W / 2>(sums); }
};

// The loops for one instruction set: W numbers a vector, tiles of R rows and V vectors.
#define PLIMSOLL_PRODUCT_LOOPS(name, T, attributes, W, R, V)                                       \
  attributes void pack_##name(const T* from, std::int64_t stride, std::int64_t depth_stride,       \
                              std::int64_t count, std::int64_t width, std::int64_t depth, T* to) { \
    pack<T, std::max(W, 4), R, V * W>(from, stride, depth_stride, count, width, depth, to);        \
  }                                                                                                \
  attributes void pack_rows_##name(const T* const* rows, std::int64_t width, std::int64_t depth,   \
                                   T* to) {                                                        \
    pack_rows<T, std::max(W, 4)>(rows, width, depth, to);                                          \
  }                                                                                                \
  attributes void multiply_##name(const T* a, const T* b, std::int64_t rows, std::int64_t columns, \
                                  std::int64_t depth, const ProductTile<T>& c) {                   \
    multiply<NumberLanes<T, W>, R, V>(a, b, rows, columns, depth, c);                              \
  }                                                                                                \
  attributes void multiply_prepared_##name(const T* a, const T* b, std::int64_t rows,              \
                                           std::int64_t columns, std::int64_t depth,               \
                                           const ProductTile<T>& c) {                              \
    multiply_prepared<NumberLanes<T, W>, R, V>(a, b, rows, columns, depth, c);                     \
  }                                                                                                \
  attributes void add_steps_##name(const T* a, std::int64_t rows, const T* b,                      \
                                   std::int64_t b_stride, std::int64_t columns, T* sums,           \
                                   std::int64_t sums_stride) {                                     \
    add_steps<NumberLanes<T, W>, R, V>(a, rows, b, b_stride, columns, sums, sums_stride);          \
  }                                                                                                \
  attributes void add_dots_##name(const T* a, std::int64_t a_stride, std::int64_t rows,            \
                                  const T* b, std::int64_t b_stride, std::int64_t depth, T* c,     \
                                  std::int64_t c_stride) {                                         \
    add_dots<NumberLanes<T, W>>(a, a_stride, rows, b, b_stride, depth, c, c_stride);               \
  }                                                                                                \
  constexpr ProductLoops<T> kLoops_##name = {R,                                                    \
                                             V * W,                                                \
                                             pack_##name,                                          \
                                             pack_rows_##name,                                     \
                                             multiply_##name,                                      \
                                             multiply_prepared_##name,                             \
                                             add_steps_##name,                                     \
                                             add_dots_##name,                                      \
                                             W};

#define PLIMSOLL_BASELINE __attribute__((flatten))
PLIMSOLL_PRODUCT_LOOPS(baseline_f32, float, PLIMSOLL_BASELINE, 4, 4, 2)
PLIMSOLL_PRODUCT_LOOPS(baseline_f64, double, PLIMSOLL_BASELINE, 2, 4, 2)
PLIMSOLL_PRODUCT_LOOPS(baseline_u32, std::uint32_t, PLIMSOLL_BASELINE, 4, 4, 2)
PLIMSOLL_PRODUCT_LOOPS(baseline_u64, std::uint64_t, PLIMSOLL_BASELINE, 2, 4, 2)
#if defined(__x86_64__)
#define PLIMSOLL_AVX2 __attribute__((flatten, target("avx2,fma")))
PLIMSOLL_PRODUCT_LOOPS(avx2_f32, float, PLIMSOLL_AVX2, 8, 4, 3)
PLIMSOLL_PRODUCT_LOOPS(avx2_f64, double, PLIMSOLL_AVX2, 4, 4, 3)
PLIMSOLL_PRODUCT_LOOPS(avx2_u32, std::uint32_t, PLIMSOLL_AVX2, 8, 4, 3)
PLIMSOLL_PRODUCT_LOOPS(avx2_u64, std::uint64_t, PLIMSOLL_AVX2, 4, 4, 2)
#define PLIMSOLL_AVX512 __attribute__((flatten, target("avx512f")))
#define PLIMSOLL_AVX512DQ __attribute__((flatten, target("avx512f,avx512dq")))
PLIMSOLL_PRODUCT_LOOPS(avx512_f32, float, PLIMSOLL_AVX512, 16, 12, 2)
PLIMSOLL_PRODUCT_LOOPS(avx512_f64, double, PLIMSOLL_AVX512, 8, 12, 2)
PLIMSOLL_PRODUCT_LOOPS(avx512_u32, std::uint32_t, PLIMSOLL_AVX512, 16, 12, 2)
PLIMSOLL_PRODUCT_LOOPS(avx512_u64, std::uint64_t, PLIMSOLL_AVX512DQ, 8, 12, 2)
#endif

// The loops of one instruction set that are of T.
template <typename T, typename... Loops>
const ProductLoops<T>* loops_of(const Loops&... loops) {
  const ProductLoops<T>* found = nullptr;
  const auto look_at = [&](const auto& one) {
    if constexpr (std::is_same_v<decltype(one), const ProductLoops<T>&>) found = &one;
  };
  (look_at(loops), ...);
  return found;
}

}  // namespace

template <typename T>
const ProductLoops<T>* product_loops(ProductInstructions instructions) {
  switch (instructions) {
    case ProductInstructions::baseline:
      return loops_of<T>(kLoops_baseline_f32, kLoops_baseline_f64, kLoops_baseline_u32,
                         kLoops_baseline_u64);
#if defined(__x86_64__)
    case ProductInstructions::avx2:
      if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return nullptr;
      return loops_of<T>(kLoops_avx2_f32, kLoops_avx2_f64, kLoops_avx2_u32, kLoops_avx2_u64);
    case ProductInstructions::avx512:
      if (!__builtin_cpu_supports("avx512f")) return nullptr;
      if (std::is_same_v<T, std::uint64_t> && !__builtin_cpu_supports("avx512dq")) return nullptr;
      return loops_of<T>(kLoops_avx512_f32, kLoops_avx512_f64, kLoops_avx512_u32,
                         kLoops_avx512_u64);
#endif
    default:
      return nullptr;
  }
}

template <typename T>
const ProductLoops<T>& product_loops() {
  static const ProductLoops<T>* const loops = [] {
    for (const auto wide : {ProductInstructions::avx512, ProductInstructions::avx2}) {
      if (const ProductLoops<T>* found = product_loops<T>(wide)) return found;
    }
    return product_loops<T>(ProductInstructions::baseline);
  }();
  return *loops;
}

#define PLIMSOLL_LOOPS_OF(T)                                                       \
  template const ProductLoops<T>* product_loops(ProductInstructions instructions); \
  template const ProductLoops<T>& product_loops();
PLIMSOLL_LOOPS_OF(float)
PLIMSOLL_LOOPS_OF(double)
PLIMSOLL_LOOPS_OF(std::uint32_t)
PLIMSOLL_LOOPS_OF(std::uint64_t)

}  // namespace plimsoll::kernels
