// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/eviction/address_range.h"

#include <algorithm>
#include <iterator>

namespace plimsoll::memory {

bool AddressRange::take(Owner owner, std::int64_t bytes, End end) {
  const auto fits = [&](const auto& entry) {
    return entry.second.owner == kNobody && entry.second.bytes >= bytes;
  };
  Blocks::iterator hole;
  if (end == End::low) {
    hole = std::find_if(blocks_.begin(), blocks_.end(), fits);
    if (hole == blocks_.end()) return false;
  } else {
    const auto found = std::find_if(blocks_.rbegin(), blocks_.rend(), fits);
    if (found == blocks_.rend()) return false;
    hole = std::prev(found.base());
  }
  const std::int64_t left = hole->second.bytes - bytes;
  std::int64_t offset = hole->first;
  if (end == End::high && left > 0) {
    hole->second.bytes = left;
    offset += left;
    blocks_.emplace(offset, Block{bytes, owner});
  } else {
    hole->second = {bytes, owner};
    if (left > 0) blocks_.emplace(offset + bytes, Block{left, kNobody});
  }
  offsets_[owner] = offset;
  return true;
}

void AddressRange::give_back(Owner owner) {
  const auto found = offsets_.find(owner);
  if (found == offsets_.end()) return;
  auto block = blocks_.find(found->second);
  offsets_.erase(found);
  block->second.owner = kNobody;
  const auto swallow_next = [&](Blocks::iterator hole) {
    const auto next = std::next(hole);
    if (next == blocks_.end() || next->second.owner != kNobody) return;
    hole->second.bytes += next->second.bytes;
    blocks_.erase(next);
  };
  swallow_next(block);
  if (block != blocks_.begin() && std::prev(block)->second.owner == kNobody) {
    swallow_next(std::prev(block));
  }
}

void AddressRange::pass_on(Owner from, Owner to) {
  const auto found = offsets_.find(from);
  const std::int64_t offset = found->second;
  offsets_.erase(found);
  offsets_[to] = offset;
  blocks_.at(offset).owner = to;
}

}  // namespace plimsoll::memory
