// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

namespace plimsoll::memory {

// Blocks in one range of addresses, as of a device without page tables: nothing moves, and a
// request needs bytes beside each other. Bookkeeping only. Not thread-safe.
class AddressRange {
 public:
  using Owner = std::int32_t;
  static constexpr Owner kNobody = -1;
  enum class End : std::uint8_t { low, high };

  explicit AddressRange(std::int64_t bytes) {
    if (bytes > 0) blocks_.emplace(0, Block{bytes, kNobody});
  }

  // Takes the hole nearest to that end of the range in which there is room; false if there is none.
  // An owner has at most one block. Precondition: bytes > 0.
  bool take(Owner owner, std::int64_t bytes, End end);
  // What the owner has, if anything, is a hole again.
  void give_back(Owner owner);
  // Another has it now. Preconditions: `from` has a block, `to` has none.
  void pass_on(Owner from, Owner to);
  bool has(Owner owner) const { return offsets_.contains(owner); }

  // All blocks, holes included, by their offsets; no two holes side by side.
  struct Block {
    std::int64_t bytes = 0;
    Owner owner = kNobody;
  };
  const std::map<std::int64_t, Block>& blocks() const { return blocks_; }

 private:
  using Blocks = std::map<std::int64_t, Block>;

  Blocks blocks_;
  std::unordered_map<Owner, std::int64_t> offsets_;
};

}  // namespace plimsoll::memory
