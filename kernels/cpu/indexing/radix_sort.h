// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/base/index.h"
#include "runtime/device/cpu/parallel.h"

namespace plimsoll::kernels {

// A sort by digits of the keys, least significant first (Knuth, "The Art of Computer Programming",
// volume 3, section 5.2.5): stable, and no comparison that a processor could predict wrongly.

// An entry's key, in the order of unsigned integers, and its place.
template <typename Key>
struct Keyed {
  static_assert(std::is_unsigned_v<Key>);
  Key key;
  std::int32_t at;
};

// Below so many entries merges are quicker than counting digits.
template <typename Key>
constexpr std::int64_t kFewestByRadix = sizeof(Key) == 8 ? 512 : 96;

// Entries are counted, and moved, by pieces of a line, which threads share out. What comes out is
// the same for any number of pieces.
constexpr std::int64_t kRadixPieces = 8;
constexpr std::int64_t kFewestByPieces = 1 << 16;

// Sorts `from`, of `count` entries, by ascending keys, of equal ones by their order in `from`; `to`
// is as large. Returns which of the two holds the result. With `parallel` from many threads; any
// number of lines may be sorted at the same time.
template <typename Key>
Keyed<Key>* radix_sort(Keyed<Key>* from, Keyed<Key>* to, std::int64_t count, bool parallel) {
  using Counts = std::array<std::int32_t, 256>;
  constexpr int kDigits = sizeof(Key);
  const std::int64_t pieces = parallel && count >= kFewestByPieces ? kRadixPieces : 1;
  const auto begin_of = [&](std::int64_t piece) { return count * piece / pieces; };
  const auto of_pieces = [&](const auto& function) {
    if (pieces == 1) return function(0);
    device::parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) function(piece);
    });
  };
  // A digit that is the same everywhere says nothing: which ones differ from the first entry's.
  std::array<Key, kRadixPieces> differences{};
  of_pieces([&](std::int64_t piece) {
    Key differs = 0;
    for (std::int64_t i = begin_of(piece); i < begin_of(piece + 1); ++i) {
      differs |= static_cast<Key>(from[i].key ^ from[0].key);
    }
    differences[at(piece)] = differs;
  });
  Key differs = 0;
  for (const Key one : differences) differs |= one;
  std::array<Counts, kRadixPieces> next;
  for (int digit = 0; digit < kDigits; ++digit) {
    const auto of = [&](Key key) { return static_cast<std::uint8_t>(key >> (8 * digit)); };
    if (of(differs) == 0) continue;
    of_pieces([&](std::int64_t piece) {
      Counts& counts = next[at(piece)];
      counts.fill(0);
      for (std::int64_t i = begin_of(piece); i < begin_of(piece + 1); ++i) {
        ++counts[of(from[i].key)];
      }
    });
    std::int32_t place = 0;
    for (std::size_t value = 0; value < 256; ++value) {
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        place += std::exchange(next[at(piece)][value], place);
      }
    }
    of_pieces([&](std::int64_t piece) {
      Counts& places = next[at(piece)];
      for (std::int64_t i = begin_of(piece); i < begin_of(piece + 1); ++i) {
        to[places[of(from[i].key)]++] = from[i];
      }
    });
    std::swap(from, to);
  }
  return from;
}

}  // namespace plimsoll::kernels
