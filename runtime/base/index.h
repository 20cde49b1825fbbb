// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include "runtime/base/index.h"

namespace plimsoll {

// A number that counts elements, as containers want it. Precondition: it is not negative.
constexpr std::size_t at(std::integral auto i) { return static_cast<std::size_t>(i); }

// Where a table with one entry per enumerator has that of `value`.
template <typename Enum>
  requires std::is_enum_v<Enum>
constexpr std::size_t at(Enum value) {
  return static_cast<std::size_t>(value);
}

}  // namespace plimsoll
