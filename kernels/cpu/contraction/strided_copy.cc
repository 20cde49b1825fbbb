// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {
namespace {

// Neighbouring dimensions that one stride walks become one; those of size one go.
struct Walk {
  std::vector<std::int64_t> dims, strides;
};

Walk collapse(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) {
  Walk walk;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!walk.dims.empty() && walk.strides.back() == strides[d] * dims[d]) {
      walk.dims.back() *= dims[d];
      walk.strides.back() = strides[d];
      continue;
    }
    walk.dims.push_back(dims[d]);
    walk.strides.push_back(strides[d]);
  }
  if (walk.dims.empty()) walk = {{1}, {1}};
  return walk;
}

template <typename T>
void copy_rows(const Walk& walk, const T* source, T* destination) {
  const std::size_t outer = walk.dims.size() - 1;
  const std::int64_t width = walk.dims[outer], step = walk.strides[outer];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d < outer; ++d) rows *= walk.dims[d];
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, width));
  device::parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> at(outer);
    const T* from = source;
    std::int64_t rest = begin;
    for (std::size_t d = outer; d-- > 0;) {
      at[d] = rest % walk.dims[d];
      from += at[d] * walk.strides[d];
      rest /= walk.dims[d];
    }
    T* to = destination + begin * width;
    for (std::int64_t row = begin; row < end; ++row, to += width) {
      if (step == 1 && width >= 16) {
        std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(T));
      } else {
        for (std::int64_t i = 0; i < width; ++i) to[i] = from[i * step];
      }
      for (std::size_t d = outer; d-- > 0;) {
        from += walk.strides[d];
        if (++at[d] < walk.dims[d]) break;
        from -= at[d] * walk.strides[d];
        at[d] = 0;
      }
    }
  });
}

}  // namespace

void copy_to_dense(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
                   int element_bytes, const void* source, void* destination) {
  for (const std::int64_t size : dims) {
    if (size == 0) return;
  }
  const Walk walk = collapse(dims, strides);
  const auto copy = [&](auto zero) {
    using T = decltype(zero);
    copy_rows(walk, static_cast<const T*>(source), static_cast<T*>(destination));
  };
  if (element_bytes == 1) copy(std::uint8_t{});
  if (element_bytes == 2) copy(std::uint16_t{});
  if (element_bytes == 4) copy(std::uint32_t{});
  if (element_bytes == 8) copy(std::uint64_t{});
}

}  // namespace plimsoll::kernels
