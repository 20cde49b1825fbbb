// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/base/math/scalar.h"
#include "runtime/ir/interpreter/interpreter_elementwise.h"
#include "runtime/ir/shape.h"

// How one element is read, computed with and written; only interpreter*.cc include this.
namespace plimsoll::ir::interpreter {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <typename T>
inline constexpr bool kIsFloat = kIsHalf<T> || std::is_floating_point_v<T>;
template <typename T>
inline constexpr bool kIsPred = std::is_same_v<T, bool>;
template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T> && !kIsPred<T>;

// What arithmetic on T happens in: f32 for the 16-bit floats, T for everything else.
template <typename T>
using Number = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
Number<T> read(const std::byte* data, std::int64_t i) {
  if constexpr (kIsPred<T>) {
    // Bytes from outside may hold any bit pattern.
    return data[i] != std::byte{0};
  } else {
    T value;
    std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<Number<T>>(value);
  }
}

template <typename T>
Number<T> read(const View& view, std::int64_t i) {
  return read<T>(view.data, view.repeats ? 0 : i);
}

template <typename T>
void write(std::byte* data, std::int64_t i, Number<T> number) {
  const T value = static_cast<T>(number);
  std::memcpy(data + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// A number as a value of scalar_function.h.
template <typename T>
using Value = std::conditional_t<
    kIsPred<T>, math::ScalarMask,
    std::conditional_t<kIsInteger<T>, math::ScalarInteger<T>, math::ScalarFloat<Number<T>>>>;

}  // namespace plimsoll::ir::interpreter
