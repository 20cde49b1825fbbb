// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_rows.h"

namespace plimsoll::kernels {
namespace {

constexpr std::int64_t kLine = 16;  // numbers

}  // namespace

void fetch_panel(const float* from, std::int64_t stride, std::int64_t depth_stride,
                 std::int64_t count, std::int64_t depth, std::int64_t part, std::int64_t parts) {
  const bool is_run = stride == 1;  // else every row is a run
  const std::int64_t steps = is_run ? depth : (depth + kLine - 1) / kLine;
  const std::int64_t begin = steps * part / parts, end = steps * (part + 1) / parts;
  if (is_run) {
    for (std::int64_t d = begin; d < end; ++d) {
      const float* const run = from + d * depth_stride;
      for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(run + i);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const float* const row = from + i * stride;
    for (std::int64_t line = begin; line < end; ++line) __builtin_prefetch(row + line * kLine);
  }
}

void MatrixRows::pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
                      float* to) const {
  loops_.pack(data_ + first * strides_.row + k0 * strides_.column, strides_.row, strides_.column,
              rows, (rows + 3) / 4 * 4, depth, to);
}

void MatrixRows::fetch(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
                       std::int64_t part, std::int64_t parts) const {
  fetch_panel(data_ + first * strides_.row + k0 * strides_.column, strides_.row, strides_.column,
              rows, depth, part, parts);
}

}  // namespace plimsoll::kernels
