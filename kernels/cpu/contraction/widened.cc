// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/contraction/widened.h"

#include <cstring>

#include "kernels/cpu/numeric.h"
#include "kernels/cpu/vector_loops.h"

namespace plimsoll::kernels {

using ir::DType;

bool is_f32_or_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32;
}

bool is_byte(DType dtype) {
  return dtype == DType::s8 || dtype == DType::u8 || dtype == DType::pred;
}

void widen_run(DType dtype, const void* from, float* to, std::int64_t count) {
  switch (dtype) {
    case DType::f16:
      return from_f16(static_cast<const Float16*>(from), to, count);
    case DType::bf16:
      return from_bf16(static_cast<const Bfloat16*>(from), to, count);
    case DType::s8:
      return from_bytes(static_cast<const std::int8_t*>(from), to, count);
    case DType::f32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    default:
      return from_bytes(static_cast<const std::uint8_t*>(from), to, count);
  }
}

void narrow_run(DType dtype, const float* from, void* to, std::int64_t count) {
  switch (dtype) {
    case DType::f16:
      return to_f16(from, static_cast<Float16*>(to), count);
    case DType::bf16:
      return to_bf16(from, static_cast<Bfloat16*>(to), count);
    case DType::f32:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      return;
    default:
      ir::visit_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (!kIsHalf<T>) {
          for (std::int64_t i = 0; i < count; ++i) {
            static_cast<T*>(to)[i] = narrow<T>(static_cast<std::int32_t>(from[i]));
          }
        }
      });
  }
}

}  // namespace plimsoll::kernels
