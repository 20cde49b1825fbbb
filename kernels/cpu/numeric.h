// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/ir/dtype.h"

namespace plimsoll::kernels {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <typename T>
inline constexpr bool kIsFloating = kIsHalf<T> || std::is_floating_point_v<T>;

// What contractions of a dtype add up in: f32 for f32 and narrower floats, f64 for f64, and
// integers of 32 or 64 bits that wrap, of which the result keeps the low bits. pred adds as "or",
// so a count does.
enum class Accumulator : std::uint8_t { f32, f64, u32, u64 };

inline Accumulator accumulator_of(ir::DType lhs, ir::DType rhs, ir::DType result) {
  if (!ir::is_floating(result)) {
    const bool is_whole = !ir::is_floating(lhs) && !ir::is_floating(rhs);
    return is_whole && ir::dtype_bytes(result) <= 4 ? Accumulator::u32 : Accumulator::u64;
  }
  const bool wide = result == ir::DType::f64 || lhs == ir::DType::f64 || rhs == ir::DType::f64;
  return wide ? Accumulator::f64 : Accumulator::f32;
}

// Calls `f` with a value of the accumulator's C++ type.
template <typename F>
decltype(auto) visit_accumulator(Accumulator accumulator, F&& f) {
  switch (accumulator) {
    case Accumulator::f32:
      return f(float{});
    case Accumulator::f64:
      return f(double{});
    case Accumulator::u32:
      return f(std::uint32_t{});
    case Accumulator::u64:
      return f(std::uint64_t{});
  }
  __builtin_unreachable();
}

// An element as an accumulator value; signed integers are sign-extended.
template <typename Acc, typename T>
inline Acc widen(T value) {
  if constexpr (kIsHalf<T>) {
    return widen<Acc>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<Acc, std::uint64_t> && kIsFloating<T>) {
    const bool in_range = value >= T(-0x1p63) && value < T(0x1p63);
    return in_range ? static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) : 0;
  } else if constexpr (std::is_same_v<Acc, std::uint32_t>) {
    return static_cast<std::uint32_t>(widen<std::uint64_t>(value));
  } else if constexpr (std::is_same_v<Acc, std::uint64_t> && std::is_signed_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  } else {
    return static_cast<Acc>(value);
  }
}

template <typename T, typename Acc>
inline T narrow(Acc value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != Acc{};
  } else if constexpr (kIsHalf<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Element `index` of an array whose dtype is known only at run time, and back.
template <typename Acc>
inline Acc load_element(ir::DType dtype, const void* data, std::int64_t index) {
  return ir::visit_dtype(dtype, [&](auto zero) {
    return widen<Acc>(static_cast<const decltype(zero)*>(data)[index]);
  });
}
template <typename Acc>
inline void store_element(ir::DType dtype, void* data, std::int64_t index, Acc value) {
  ir::visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(data)[index] = narrow<T>(value);
  });
}

}  // namespace plimsoll::kernels
