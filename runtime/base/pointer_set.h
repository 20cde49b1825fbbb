// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "runtime/base/pointer_map.h"

namespace plimsoll {

// Pointers, none of them null, as PointerMap keeps them.
template <typename T>
class PointerSet {
 public:
  PointerSet() = default;
  // Room for `most` without growing.
  explicit PointerSet(std::size_t most) : pointers_(most) {}

  // Whether it was not there.
  bool insert(const T* pointer) { return pointers_.emplace(pointer, {}).second; }
  bool contains(const T* pointer) const { return pointers_.contains(pointer); }
  std::size_t size() const { return pointers_.size(); }

 private:
  struct Nothing {};
  PointerMap<T, Nothing> pointers_;
};

}  // namespace plimsoll
