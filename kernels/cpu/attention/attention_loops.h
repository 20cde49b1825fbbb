// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The inner loops of attention on blocks of f32, compiled for several instruction sets. A row of a
// block is `columns` elements with a stride; columns are a multiple of kLanes. Products are summed
// in the order of `depth`, by fused multiply-adds where the machine has them.
namespace plimsoll::kernels {

inline constexpr std::int64_t kLanes = 16;

// A score this far below the greatest of its row, or farther, has the power zero: the least normal
// number is just above.
inline constexpr float kZeroPower = -87.3f;

// A matrix of which single elements are read: element (i, k) is data[i * row + k * column].
struct StridedMatrix {
  const float* data;
  std::int64_t row, column;
};

struct AttentionLoops {
  // c[i][j] = (add ? c[i][j] : 0) + sum over k < depth of a(i, k) * b[k][j], for i < rows.
  void (*multiply)(float* c, std::int64_t c_stride, StridedMatrix a, const float* b,
                   std::int64_t b_stride, std::int64_t rows, std::int64_t columns,
                   std::int64_t depth, bool add);
  // to[j][i] = from[i][j], for i, j < kLanes.
  void (*transpose)(const float* from, std::int64_t from_stride, float* to, std::int64_t to_stride);
  // x[i] *= factor, for i < count, a multiple of kLanes.
  void (*scale)(float* x, std::int64_t count, float factor);
  // One step of softmax down the columns of scores[keys][columns]: greatest and sum so far are
  // brought along, the scores become exp(score - greatest), and `correction` what older powers are
  // to be multiplied by.
  void (*soften)(float* scores, std::int64_t keys, std::int64_t columns, float* greatest,
                 float* sum, float* correction);
  // scores[keys][columns] become p = exp(score - greatest) * inverse_sum, and `slopes` (in: the
  // gradient of p) becomes p * (slope - delta) * gradient_scale.
  void (*differentiate)(float* scores, float* slopes, std::int64_t keys, std::int64_t columns,
                        const float* greatest, const float* inverse_sum, const float* delta,
                        float gradient_scale);
  // c[i][j] *= factors[j].
  void (*scale_columns)(float* c, std::int64_t rows, std::int64_t columns, const float* factors);
};

// Of this machine.
const AttentionLoops& attention_loops();

}  // namespace plimsoll::kernels
