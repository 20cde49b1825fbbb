// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/chunks.h"
#include "collectives/peers.h"
#include "runtime/device/communicator.h"

namespace plimsoll::collectives {

// What messages to or from one other member are packed in, by turns.
using Scratch = std::array<std::vector<std::byte>, 2>;

enum class Direction : std::uint8_t { out, in };

// Chunks on their way to another member, or from one: between it and arrays, or, where there are
// none, scratch memory, in which two lie at a time. All that it is given outlives it.
class ChunkStream {
 public:
  ChunkStream(Direction direction, Peers& peers, std::int64_t peer, Slot slot,
              std::span<const Chunk> chunks, std::span<const device::Rows> arrays, Scratch& scratch)
      : direction_(direction),
        peers_(peers),
        peer_(peer),
        slot_(slot),
        chunks_(chunks),
        arrays_(arrays),
        scratch_(scratch),
        transfers_(chunks.size()) {}

  std::int64_t peer() const { return peer_; }
  // Sends chunk k, or is ready to receive it. There may be none.
  Waited post(std::size_t k);
  // Until chunk k has gone or come, if it was posted.
  Waited wait(std::size_t k);
  Waited finish();
  // What has come as chunk k and is for no array, until chunk k + 2 is posted.
  const std::byte* data(std::size_t k) const { return scratch_[k % 2].data(); }

 private:
  // Null where the chunk has to be in scratch memory.
  std::byte* in_array(std::size_t k) const {
    return arrays_.empty() ? nullptr : one_piece(chunks_[k], arrays_);
  }

  const Direction direction_;
  Peers& peers_;
  const std::int64_t peer_;
  const Slot slot_;
  const std::span<const Chunk> chunks_;
  const std::span<const device::Rows> arrays_;
  Scratch& scratch_;
  std::vector<std::unique_ptr<Peers::Transfer>> transfers_;
  std::array<std::optional<std::size_t>, 2> in_scratch_;
};

}  // namespace plimsoll::collectives
