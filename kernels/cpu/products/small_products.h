// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::kernels {

// Products of many small matrices, out[p] = a[p] b[p], where a library's call takes longer than the
// product. Strides in elements.
struct SmallProducts {
  std::int64_t m = 1, n = 1, k = 1;  // each at most kMostOfSmall, and at least 1
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
};

inline constexpr std::int64_t kMostOfSmall = 16;

// Products [0, count): of the matrices that begin at a + a_at[p] and b + b_at[p], to
// out + p * m * n, dense. Every element is the sum over k in that order, products rounded, whatever
// the instruction set; integers wrap. Thread-safe.
void multiply_small(const SmallProducts& shape, const float* a, const std::int64_t* a_at,
                    const float* b, const std::int64_t* b_at, float* out, std::int64_t count);
void multiply_small(const SmallProducts& shape, const double* a, const std::int64_t* a_at,
                    const double* b, const std::int64_t* b_at, double* out, std::int64_t count);
void multiply_small(const SmallProducts& shape, const std::uint32_t* a, const std::int64_t* a_at,
                    const std::uint32_t* b, const std::int64_t* b_at, std::uint32_t* out,
                    std::int64_t count);
void multiply_small(const SmallProducts& shape, const std::uint64_t* a, const std::int64_t* a_at,
                    const std::uint64_t* b, const std::int64_t* b_at, std::uint64_t* out,
                    std::int64_t count);

}  // namespace plimsoll::kernels
