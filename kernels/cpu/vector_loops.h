// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/base/float16.h"
#include "runtime/base/philox.h"

// The inner loops that own kernels spend their time in, compiled for several instruction sets.
// Every version computes in the same order and rounds every product, so all give the same bits.
namespace plimsoll::kernels {

inline constexpr int kTileRows = 32;
inline constexpr int kTileColumns = 64;
inline constexpr int kTileDepth = 64;

// acc[i][j] += sum over k of a[i][k] * b[k][j], for i < rows, k < depth and all j < kTileColumns;
// the rows of acc and b have kTileColumns elements, those of a kTileDepth.
void multiply_tile(float* acc, const float* a, const float* b, int rows, int depth);
void multiply_tile(double* acc, const double* a, const double* b, int rows, int depth);
void multiply_tile(std::uint32_t* acc, const std::uint32_t* a, const std::uint32_t* b, int rows,
                   int depth);
void multiply_tile(std::uint64_t* acc, const std::uint64_t* a, const std::uint64_t* b, int rows,
                   int depth);

// The sum of x[i] * y[i]: 64 partial sums over i mod 64, then added pairwise.
float dot_product(const float* x, const float* y, std::int64_t count);
// to[i] = from[i] rounded to bf16; and the other way, which is exact.
void to_bf16(const float* from, Bfloat16* to, std::int64_t count);
void from_bf16(const Bfloat16* from, float* to, std::int64_t count);
// The same of f16, and of integers of a byte, of which the first is exact in f32, too.
void to_f16(const float* from, Float16* to, std::int64_t count);
void from_f16(const Float16* from, float* to, std::int64_t count);
void from_bytes(const std::int8_t* from, float* to, std::int64_t count);
void from_bytes(const std::uint8_t* from, float* to, std::int64_t count);
// y[i] += x[i] of whole numbers below 2^31; y wraps.
void add_whole(std::uint32_t* y, const float* x, std::int64_t count);
// y[i] += x[i].
void add_to(float* y, const float* x, std::int64_t count);
// y[i] += x[offsets[r] + i] for each row r in turn.
void add_rows(float* y, const float* x, const std::int64_t* offsets, int rows, std::int64_t count);
void add_rows(float* y, const Bfloat16* x, const std::int64_t* offsets, int rows,
              std::int64_t count);
// The same with maximum: NaN if either is, -0 below +0.
void maximum_rows(float* y, const float* x, const std::int64_t* offsets, int rows,
                  std::int64_t count);
void maximum_rows(float* y, const Bfloat16* x, const std::int64_t* offsets, int rows,
                  std::int64_t count);
// y[to[r] + i] += x[from[r] + i] for each row r in turn; with maximum; with minimum: NaN if either
// is, -0 below +0. Rows of `y` may be the same.
void add_at(float* y, const float* x, const std::int64_t* to, const std::int64_t* from,
            std::int64_t rows, std::int64_t count);
void maximum_at(float* y, const float* x, const std::int64_t* to, const std::int64_t* from,
                std::int64_t rows, std::int64_t count);
void minimum_at(float* y, const float* x, const std::int64_t* to, const std::int64_t* from,
                std::int64_t rows, std::int64_t count);

// The words of `blocks` Philox blocks from `state` on, one after the other.
void philox_words(const philox::State& state, std::int64_t blocks, void* out);

}  // namespace plimsoll::kernels
