// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "plimsoll/plimsoll.h"

namespace plimsoll {

// Element types; the numbers are those of plm_dtype.
enum class DType : int {
  pred = PLM_PRED,
  s8 = PLM_S8,
  s16 = PLM_S16,
  s32 = PLM_S32,
  s64 = PLM_S64,
  u8 = PLM_U8,
  u16 = PLM_U16,
  u32 = PLM_U32,
  u64 = PLM_U64,
  f16 = PLM_F16,
  bf16 = PLM_BF16,
  f32 = PLM_F32,
  f64 = PLM_F64,
};

inline std::string to_string(DType dtype) { return plm_dtype_name(static_cast<plm_dtype>(dtype)); }

inline bool is_floating(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

// The dtype whose elements are stored as T. (f16 and bf16 have no type of their own in C++20:
// convert such tensors to f32 to read them.)
template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::pred;
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    return DType::s8;
  } else if constexpr (std::is_same_v<T, std::int16_t>) {
    return DType::s16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::s32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::s64;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::u8;
  } else if constexpr (std::is_same_v<T, std::uint16_t>) {
    return DType::u16;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return DType::u32;
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return DType::u64;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else {
    static_assert(std::is_same_v<T, double>, "no dtype has elements of this type");
    return DType::f64;
  }
}

}  // namespace plimsoll
