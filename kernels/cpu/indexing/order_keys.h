// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/numeric.h"

// What numbers are compared by in a sort.
namespace plimsoll::kernels {

// A float as an integer that orders as totalOrder does; other types are themselves. Bits of
// floats order as integers where the sign is not set. Where it is, larger bits are smaller numbers:
// all bits but the sign are flipped. -0 becomes -1 and is before +0; NaNs come last, or first with
// the sign set, as IEEE 754's totalOrder wants.
template <typename T>
auto total_order_key(T value) {
  if constexpr (kIsHalf<T>) {
    const auto bits = static_cast<std::int16_t>(value.bits);
    return bits >= 0 ? bits
                     : static_cast<std::int16_t>(bits ^ std::numeric_limits<std::int16_t>::max());
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    const Bits bits = std::bit_cast<Bits>(value);
    return bits >= 0 ? bits : static_cast<Bits>(bits ^ std::numeric_limits<Bits>::max());
  } else {
    return value;
  }
}

template <typename T>
auto natural_key(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

// A float with the quiet NaN without a sign for every NaN, and +0 for -0.
template <typename T>
T canonical(T value) {
  if constexpr (kIsHalf<T>) {
    const float wide = static_cast<float>(value);
    return wide != wide ? T(std::numeric_limits<float>::quiet_NaN()) : wide == 0 ? T(0.0F) : value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return value != value ? std::numeric_limits<T>::quiet_NaN() : value == 0 ? T{0} : value;
  } else {
    return value;
  }
}

// What orders numbers that are no NaNs as they are compared naturally: -0 is +0.
template <typename Key>
auto order_key(Key key) {
  if constexpr (std::is_floating_point_v<Key>) {
    return total_order_key(key + Key{0});
  } else {
    return key;
  }
}

// An integer as an unsigned one of the same order.
template <typename T>
constexpr auto unsigned_key(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<std::uint8_t>(value);
  } else {
    using Key = std::make_unsigned_t<T>;
    constexpr Key kSign = std::is_signed_v<T> ? Key(Key{1} << (sizeof(T) * 8 - 1)) : Key{0};
    return static_cast<Key>(static_cast<Key>(value) ^ kSign);
  }
}

}  // namespace plimsoll::kernels
