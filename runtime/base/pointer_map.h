// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace plimsoll {

// From pointers, none of them null, to values: one array with open addressing, for walks over the
// instructions of a program or of a kernel. Nothing is taken out again.
template <typename T, typename Value>
class PointerMap {
 public:
  // Room for `most` without growing.
  explicit PointerMap(std::size_t most = 7) : slots_(std::bit_ceil(2 * most + 2)) { set_shift(); }

  // Null where there is none. Stays where it is until something is added.
  Value* find(const T* pointer) {
    Slot& slot = slots_[place_of(pointer)];
    return slot.pointer == pointer ? &slot.value : nullptr;
  }
  const Value* find(const T* pointer) const {
    const Slot& slot = slots_[place_of(pointer)];
    return slot.pointer == pointer ? &slot.value : nullptr;
  }
  bool contains(const T* pointer) const { return find(pointer) != nullptr; }
  // Precondition: it is there.
  const Value& at(const T* pointer) const { return *find(pointer); }
  Value& at(const T* pointer) { return *find(pointer); }

  // Where it is, with `value` if it was not there, and whether it was not.
  std::pair<Value*, bool> emplace(const T* pointer, Value value) {
    std::size_t place = place_of(pointer);
    if (slots_[place].pointer == pointer) return {&slots_[place].value, false};
    if (2 * (size_ + 1) > slots_.size()) {
      grow();
      place = place_of(pointer);
    }
    slots_[place] = {pointer, std::move(value)};
    ++size_;
    return {&slots_[place].value, true};
  }
  Value& operator[](const T* pointer) {
    Value* const known = find(pointer);
    return known != nullptr ? *known : *emplace(pointer, Value()).first;
  }
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    const T* pointer = nullptr;
    [[no_unique_address]] Value value;
  };

  // Where it is, or where it would be.
  std::size_t place_of(const T* pointer) const {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
    std::size_t at =
        static_cast<std::size_t>((reinterpret_cast<std::uintptr_t>(pointer) * kGolden) >> shift_);
    while (slots_[at].pointer != nullptr && slots_[at].pointer != pointer) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }

  void grow() {
    std::vector<Slot> before(2 * slots_.size());
    before.swap(slots_);
    set_shift();
    for (Slot& slot : before) {
      if (slot.pointer != nullptr) slots_[place_of(slot.pointer)] = std::move(slot);
    }
  }
  void set_shift() { shift_ = 64 - std::countr_zero(slots_.size()); }

  std::vector<Slot> slots_;
  int shift_ = 0;
  std::size_t size_ = 0;
};

}  // namespace plimsoll
