// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_loops.h"

#include <algorithm>
#include <type_traits>
#include <utility>

// Compiled with contraction: a * b + c on vectors is one rounding where the machine has it.
#define PLIMSOLL_INLINE inline __attribute__((always_inline))

#include "kernels/cpu/products/product_pack.inc"
#include "kernels/cpu/products/product_tiles.inc"

namespace plimsoll::kernels {
namespace {

// Vectors of W numbers, which are their own sums.
template <typename Number, int W>
struct NumberLanes {
  using T = Number;
  using Sum = Number;
  typedef T Row __attribute__((vector_size(sizeof(T) * W)));
  typedef T Unaligned __attribute__((vector_size(sizeof(T) * W), aligned(sizeof(T)), may_alias));
  using Sums = Row;
  static constexpr std::int64_t kStep = 1;
  static constexpr int kWidth = W;
  static constexpr bool kNarrows = false;

  PLIMSOLL_INLINE static Row load_row(const T* from) {
    return *reinterpret_cast<const Unaligned*>(from);
  }
  PLIMSOLL_INLINE static Sums load(const T* from) { return load_row(from); }
  PLIMSOLL_INLINE static void store(T* to, const Sums& x) { *reinterpret_cast<Unaligned*>(to) = x; }
  PLIMSOLL_INLINE static Sums add_product(const T* a, const Row& row, const Sums& sums) {
    return *a * row + sums;
  }
};

// The loops for one instruction set: W numbers a vector, tiles of R rows and V vectors.
#define PLIMSOLL_PRODUCT_LOOPS(name, T, attributes, W, R, V)                                       \
  attributes void pack_##name(const T* from, std::int64_t stride, std::int64_t depth_stride,       \
                              std::int64_t count, std::int64_t width, std::int64_t depth, T* to) { \
    pack_words<T, std::max(W, 4), R, V * W>(from, stride, depth_stride, count, width, depth, to);  \
  }                                                                                                \
  attributes void pack_rows_##name(const T* const* rows, std::int64_t width, std::int64_t depth,   \
                                   T* to) {                                                        \
    pack_rows_of_words<T, std::max(W, 4)>(rows, width, depth, to);                                 \
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
  constexpr ProductLoops<T> kLoops_##name = {                                                      \
      R, V * W, pack_##name, pack_rows_##name, multiply_##name, multiply_prepared_##name};

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
