// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

template <typename T>
void copy_rows(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
               const T* source, T* destination) {
  const std::size_t outer = dims.size() - 1;
  const std::int64_t width = dims[outer], step = strides[outer];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < outer; ++d) rows *= dims[d];
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width));
  device::parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* from = source;
      std::int64_t rest = row;
      for (std::size_t d = outer; d-- > 0;) {
        from += rest % dims[d] * strides[d];
        rest /= dims[d];
      }
      T* to = destination + row * width;
      if (step == 1) {
        std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
      } else {
        for (std::int64_t i = 0; i < width; ++i) to[i] = from[i * step];
      }
    }
  });
}

}  // namespace

void copy_to_dense(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
                   int element_bytes, const void* source, void* destination) {
  static constexpr std::int64_t kOne = 1;
  if (dims.empty()) {
    dims = {&kOne, 1};
    strides = {&kOne, 1};
  }
  for (const std::int64_t size : dims) {
    if (size == 0) return;
  }
  const auto copy = [&](auto zero) {
    using T = decltype(zero);
    copy_rows(dims, strides, static_cast<const T*>(source), static_cast<T*>(destination));
  };
  if (element_bytes == 1) copy(std::uint8_t{});
  if (element_bytes == 2) copy(std::uint16_t{});
  if (element_bytes == 4) copy(std::uint32_t{});
  if (element_bytes == 8) copy(std::uint64_t{});
}

}  // namespace plimsoll::kernels
