// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll {

// Up to `most` pointers, none of them null: one array with open addressing, for walks over all
// instructions of a program.
template <typename T>
class PointerSet {
 public:
  explicit PointerSet(std::size_t most)
      : slots_(std::bit_ceil(2 * most + 2), nullptr),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // Whether it was not there.
  bool insert(const T* pointer) {
    const T*& slot = slots_[find(pointer)];
    if (slot == pointer) return false;
    slot = pointer;
    ++size_;
    return true;
  }
  bool contains(const T* pointer) const { return slots_[find(pointer)] == pointer; }
  std::size_t size() const { return size_; }

 private:
  // Where it is, or where it would be.
  std::size_t find(const T* pointer) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    std::size_t at =
        static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(pointer) * kGolden) >> shift_);
    while (slots_[at] != nullptr && slots_[at] != pointer) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<const T*> slots_;
  int shift_;
  std::size_t size_ = 0;
};

}  // namespace plimsoll
