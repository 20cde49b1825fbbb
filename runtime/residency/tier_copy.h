// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/spill_codec.h"
#include "runtime/base/status.h"
#include "runtime/memory/tiers/tier.h"

namespace plimsoll::trace {

// A value's bytes in a tier: as they are, or, where a look at some of them says that it saves, in
// pieces as codes of variable size (kernels/spill_codec.h): where the tier is so slow that less to
// transfer saves time; and the sparse code where more than half of the tier is taken, too. What
// a piece's code does not save is kept as it is, so that a copy never takes more than its value.
class TierCopy {
 public:
  // With room for all bytes as they are; RESOURCE_EXHAUSTED where there is none. `element_bytes` of
  // 0: keeps them as they are. `fail_in`: the n-th encoding or decoding fails, for tests.
  static Result<std::unique_ptr<TierCopy>> create(memory::Tier& tier, std::int64_t bytes,
                                                  int element_bytes,
                                                  std::atomic<std::int64_t>& fail_in);

  // On the threads of the tier's engines. A store gives back the room that it does not take; a load
  // fails with DATA_LOSS for a damaged code.
  Status store(const void* from, device::Stream& stream);
  Status load(void* to, device::Stream& stream) const;
  // What it takes of the tier, when it has been stored.
  std::int64_t held_bytes() const { return held_bytes_; }

 private:
  struct Piece {
    std::unique_ptr<memory::TierBlock> block;
    std::int64_t plain_bytes = 0;
    std::int64_t code_bytes = 0;  // 0: as it is
  };
  TierCopy(memory::Tier& tier, memory::TierReservation reservation, std::int64_t bytes,
           int element_bytes, std::atomic<std::int64_t>& fail_in)
      : tier_(tier),
        reservation_(std::move(reservation)),
        bytes_(bytes),
        element_bytes_(element_bytes),
        fail_in_(fail_in) {}
  Status choose_codec(const std::byte* from);
  Status store_pieces(const std::byte* from, device::Stream& stream);
  Status store_piece(const std::byte* from, std::int64_t bytes, const std::byte* code,
                     std::int64_t code_bytes, device::Stream& stream);
  bool fails() const { return fail_in_ > 0 && --fail_in_ == 0; }

  memory::Tier& tier_;
  memory::TierReservation reservation_;
  const std::int64_t bytes_;
  const int element_bytes_;
  std::atomic<std::int64_t>& fail_in_;
  std::unique_ptr<const kernels::SpillCodec> codec_;  // null: none
  std::vector<Piece> pieces_;
  std::int64_t held_bytes_ = 0;
};

}  // namespace plimsoll::trace
