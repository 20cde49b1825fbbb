// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll {

// Hashes for look-ups in memory (XXH3). Not for adversaries, and not for what is kept: that of
// words differs between machines of different byte order.
inline std::uint64_t hash_text(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}
inline std::uint64_t hash_words(std::span<const std::int64_t> words) {
  return XXH3_64bits(words.data(), words.size_bytes());
}
// Of a sequence, word by word: that of what came before, and of one more.
inline std::uint64_t combine_hash(std::uint64_t hash, std::uint64_t word) {
  return XXH3_64bits_withSeed(&word, sizeof word, hash);
}

// For containers of texts.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return hash_text(text); }
};

}  // namespace plimsoll
