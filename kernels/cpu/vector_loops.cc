// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vector_loops.h"

// Sanitized programs may not run the resolvers that choose between clones.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define PLIMSOLL_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLIMSOLL_CLONES
#endif

namespace plimsoll::kernels {
namespace {

template <typename T>
[[gnu::always_inline]] inline void multiply_tile_loop(T* acc, const T* a, const T* b, int rows,
                                                      int depth) {
  for (int i = 0; i < rows; ++i) {
    T row[kTileColumns];
    for (int j = 0; j < kTileColumns; ++j) row[j] = acc[i * kTileColumns + j];
    for (int k = 0; k < depth; ++k) {
      const T factor = a[i * kTileDepth + k];
      const T* from = b + k * kTileColumns;
      for (int j = 0; j < kTileColumns; ++j) row[j] += factor * from[j];
    }
    for (int j = 0; j < kTileColumns; ++j) acc[i * kTileColumns + j] = row[j];
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

PLIMSOLL_CLONES void add_scaled(float* y, float a, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

PLIMSOLL_CLONES void add_to(float* y, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

}  // namespace plimsoll::kernels
