// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "benchmarks/eviction/address_range.h"
#include "runtime/memory/evictor/evictor.h"

namespace plimsoll::memory {

// The default policy on a device that gives out one range of addresses, as large as the limit, in
// which nothing moves: room is room side by side. A request may look at all blocks.
class RangeEvictor : public Evictor {
 public:
  // `windows`: what goes are neighbours; `scattered`: as without a range, until there is a hole
  // that is large enough by chance.
  enum class Holes : std::uint8_t { windows, scattered };
  // `lineage` and `sink` (may be null; keeps no copies) must outlive it; the limit stays.
  RangeEvictor(Lineage& lineage, std::int64_t limit_bytes, Holes holes,
               EvictionSink* sink = nullptr)
      : Evictor(lineage, limit_bytes, sink), range_(limit_bytes), holes_(holes) {}
  const AddressRange& range() const { return range_; }

 private:
  Status make_room_for(OperationId id, bool again) override;
  void placed(OperationId id) override;
  void gone(StorageId id) override { range_.give_back(id); }

  bool clear_window(std::int64_t bytes, bool awaited);
  bool evict_any();
  Status take(AddressRange::Owner owner, std::int64_t bytes, AddressRange::End end);
  AddressRange::End end_for(OperationId id, StorageId storage);

  AddressRange range_;
  const Holes holes_;
  double usual_cost_ = 0;  // per byte, its logarithm
};

}  // namespace plimsoll::memory
