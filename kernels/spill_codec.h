// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll::kernels {

enum class SpillCodecKind : std::uint8_t {
  sparse,       // a bit per element, then the elements that have a bit set
  byte_planes,  // the elements' first bytes, then their second ones, ...; compressed by LZ4
};

// A lossless code whose size depends on what is encoded, for bytes that leave the arena: a plan
// gives arena values a fixed size (ir::Codec) and never uses these; what a trace's evictor
// stores in a tier does (runtime/residency/tier_copy.h). Immutable; calls are thread-safe and run
// on the shared pool. The same bytes give the same code at every thread count.
class SpillCodec {
 public:
  virtual ~SpillCodec() = default;
  virtual std::string_view name() const = 0;
  // What the code of `bytes` bytes takes at most, whatever they are.
  virtual std::int64_t bound(std::int64_t bytes) const = 0;
  // Encodes all of `from` to the front of `to` and returns the bytes used; what lies behind them,
  // up to the bound, may be overwritten. INVALID_ARGUMENT where `from` is not whole elements or
  // `to` is smaller than the bound. Neither needs an alignment; they may not overlap.
  virtual Result<std::int64_t> encode(std::span<const std::byte> from,
                                      std::span<std::byte> to) const = 0;
  // Decodes `from`, all of a code, to `to`, which has the size of what was encoded. DATA_LOSS where
  // `from` is no code of that many bytes; `to` then holds anything. Never reads or writes outside
  // of the two. A changed element inside a well-formed code is not noticed: tiers keep checksums.
  virtual Status decode(std::span<const std::byte> from, std::span<std::byte> to) const = 0;
};

// For elements of 1, 2, 4 or 8 bytes; INVALID_ARGUMENT for others.
Result<std::unique_ptr<const SpillCodec>> make_spill_codec(SpillCodecKind kind, int element_bytes);

}  // namespace plimsoll::kernels
