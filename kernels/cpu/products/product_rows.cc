// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/product_rows.h"

namespace plimsoll::kernels {

template <typename T>
void fetch_panel(const T* from, std::int64_t stride, std::int64_t depth_stride, std::int64_t count,
                 std::int64_t depth, std::int64_t part, std::int64_t parts) {
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));  // numbers
  const bool is_run = stride == 1;                                   // else every row is a run
  const std::int64_t steps = is_run ? depth : (depth + kLine - 1) / kLine;
  const std::int64_t begin = steps * part / parts, end = steps * (part + 1) / parts;
  if (is_run) {
    for (std::int64_t d = begin; d < end; ++d) {
      const T* const run = from + d * depth_stride;
      for (std::int64_t i = 0; i < count; i += kLine) __builtin_prefetch(run + i);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const T* const row = from + i * stride;
    for (std::int64_t line = begin; line < end; ++line) __builtin_prefetch(row + line * kLine);
  }
}

template <typename T>
void MatrixRows<T>::pack(std::int64_t first, std::int64_t rows, std::int64_t k0, std::int64_t depth,
                         T* to) const {
  const auto pack = loops_.pack_left != nullptr ? loops_.pack_left : loops_.pack;
  pack(data_ + first * strides_.row + k0 * strides_.column, strides_.row, strides_.column, rows,
       (rows + loops_.row_step - 1) / loops_.row_step * loops_.row_step, depth, to);
}

template <typename T>
void MatrixRows<T>::fetch(std::int64_t first, std::int64_t rows, std::int64_t k0,
                          std::int64_t depth, std::int64_t part, std::int64_t parts) const {
  fetch_panel(data_ + first * strides_.row + k0 * strides_.column, strides_.row, strides_.column,
              rows, depth, part, parts);
}

#define PLIMSOLL_PRODUCT_ROWS(T)                                                           \
  template void fetch_panel(const T* from, std::int64_t stride, std::int64_t depth_stride, \
                            std::int64_t count, std::int64_t depth, std::int64_t part,     \
                            std::int64_t parts);                                           \
  template class MatrixRows<T>;
PLIMSOLL_PRODUCT_ROWS(float)
PLIMSOLL_PRODUCT_ROWS(double)
PLIMSOLL_PRODUCT_ROWS(std::uint32_t)
PLIMSOLL_PRODUCT_ROWS(std::uint64_t)
PLIMSOLL_PRODUCT_ROWS(Bfloat16)
PLIMSOLL_PRODUCT_ROWS(std::uint8_t)

}  // namespace plimsoll::kernels
