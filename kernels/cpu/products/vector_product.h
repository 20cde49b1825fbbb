// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace plimsoll::kernels {

// Inner loops of a matrix of f32 times a vector, which are bound by reading the matrix: sums stay
// in registers, and every element is read once. Compiled for several instruction sets; every
// version adds in the same order and rounds every product, so that all give the same bits, and an
// element's do not depend on how many others are computed with it. Thread-safe.

// to[r] = the sum over i < count of rows[r * stride + i] * x[i], for r < rows_count: 64 partial
// sums over i mod 64, then added pairwise.
void multiply_rows_by_vector(const float* rows, std::int64_t stride, std::int64_t rows_count,
                             const float* x, std::int64_t count, float* to);

// to[j] = the sum over k < depth, in that order, of x[k] * matrix[k * stride + j], for j < columns.
void multiply_vector_by_columns(const float* matrix, std::int64_t stride, std::int64_t columns,
                                const float* x, std::int64_t depth, float* to);

}  // namespace plimsoll::kernels
