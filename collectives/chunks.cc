// SPDX-License-Identifier: Apache-2.0
#include "collectives/chunks.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/index.h"

namespace plimsoll::collectives {
namespace {

using device::Rows;

constexpr std::int64_t kAligned = 64;
// Arrays from this size on are worth messages of their own: nothing is packed.
constexpr std::int64_t kLargeBytes = 256 << 10;

std::int64_t aligned_up(std::int64_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

// Calls `body(memory, bytes)` for each piece of the part in order.
template <typename Body>
void for_pieces(const Chunk::Part& part, const Rows& rows, Body body) {
  for (std::int64_t at = part.begin; at < part.end;) {
    const std::int64_t row = at / rows.bytes, in_row = at % rows.bytes;
    const std::int64_t bytes = std::min(rows.bytes - in_row, part.end - at);
    body(rows.data + row * rows.stride + in_row, static_cast<std::size_t>(bytes));
    at += bytes;
  }
}

}  // namespace

std::vector<Chunk> cut_chunks(std::span<const Extent> arrays, std::int64_t most) {
  std::vector<Chunk> chunks;
  Chunk open;
  const auto close = [&] {
    if (!open.parts.empty()) chunks.push_back(std::move(open));
    open = {};
  };
  const auto is_large = [&](const Extent& array) { return array.bytes >= kLargeBytes; };
  const auto cut = [&](std::size_t i) {
    for (std::int64_t begin = 0; begin < arrays[i].bytes;) {
      const std::int64_t place = aligned_up(open.bytes);
      const std::int64_t room = (most - place) / arrays[i].element * arrays[i].element;
      if (room <= 0) {
        close();
        continue;
      }
      const std::int64_t end = std::min(begin + room, arrays[i].bytes);
      open.parts.push_back({i, begin, end, place});
      open.bytes = place + end - begin;
      begin = end;
    }
  };
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!is_large(arrays[i])) continue;
    cut(i);
    close();
  }
  // Behind the large ones, so that these do not part them.
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!is_large(arrays[i])) cut(i);
  }
  close();
  return chunks;
}

std::byte* one_piece(const Chunk::Part& part, const Rows& rows) {
  if (rows.count <= 1 || rows.stride == rows.bytes) return rows.data + part.begin;
  const std::int64_t row = part.begin / rows.bytes;
  if ((part.end - 1) / rows.bytes != row) return nullptr;
  return rows.data + row * rows.stride + part.begin % rows.bytes;
}

std::byte* one_piece(const Chunk& chunk, std::span<const Rows> arrays) {
  if (chunk.parts.size() != 1) return nullptr;
  return one_piece(chunk.parts[0], arrays[chunk.parts[0].array]);
}

void pack_part(const Chunk::Part& part, const Rows& rows, std::byte* message) {
  std::byte* to = message + part.place;
  for_pieces(part, rows, [&](std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
    to += bytes;
  });
}

void pack(const Chunk& chunk, std::span<const Rows> arrays, std::byte* message) {
  for (const Chunk::Part& part : chunk.parts) pack_part(part, arrays[part.array], message);
}

void unpack(const Chunk& chunk, const std::byte* message, std::span<const Rows> arrays) {
  for (const Chunk::Part& part : chunk.parts) {
    const std::byte* from = message + part.place;
    for_pieces(part, arrays[part.array], [&](std::byte* to, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      from += bytes;
    });
  }
}

}  // namespace plimsoll::collectives
