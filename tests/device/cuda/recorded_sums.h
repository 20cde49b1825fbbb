// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/float16.h"
#include "runtime/device/cuda/libraries/nccl_types.h"

namespace plimsoll::device::cuda {

// What the recording NCCL computes with.

template <typename F>
decltype(auto) visit_nccl_type(NcclType type, F&& f) {
  switch (type) {
    case NcclType::s8:
      return f(std::int8_t{});
    case NcclType::u8:
      return f(std::uint8_t{});
    case NcclType::s32:
      return f(std::int32_t{});
    case NcclType::u32:
      return f(std::uint32_t{});
    case NcclType::s64:
      return f(std::int64_t{});
    case NcclType::u64:
      return f(std::uint64_t{});
    case NcclType::f16:
      return f(Float16{});
    case NcclType::bf16:
      return f(Bfloat16{});
    case NcclType::f64:
      return f(double{});
    case NcclType::f32:
      break;
  }
  return f(float{});
}

inline std::size_t recorded_bytes(NcclType type) {
  return visit_nccl_type(type, [](auto zero) { return sizeof(zero); });
}

template <typename T>
T recorded_combination(NcclOperation operation, T a, T b) {
  switch (operation) {
    case NcclOperation::sum:
      return static_cast<T>(a + b);
    case NcclOperation::product:
      return static_cast<T>(a * b);
    case NcclOperation::maximum:
      return a > b ? a : b;
    case NcclOperation::minimum:
      break;
  }
  return a < b ? a : b;
}

// a = a combined with b, element by element, rounded each time.
inline void recorded_combine(NcclType type, NcclOperation operation, void* a, const void* b,
                             std::size_t count) {
  visit_nccl_type(type, [&](auto zero) {
    using T = decltype(zero);
    auto* const to = static_cast<T*>(a);
    const auto* const from = static_cast<const T*>(b);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (sizeof(T) == 2) {
        to[i] = T(recorded_combination(operation, static_cast<float>(to[i]),
                                       static_cast<float>(from[i])));
      } else {
        to[i] = recorded_combination(operation, to[i], from[i]);
      }
    }
  });
}

}  // namespace plimsoll::device::cuda
