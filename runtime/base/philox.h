// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
// 1, 2, 3" (SC 2011), with the state and the element order of HLO's rng-bit-generator. Pure
// functions: element i depends on the state and i alone, so any part can be made by any thread.
//
// State, u64[3]: key, counter low, counter high. u64[2]: key, counter low, and the counter's high
// half is the key again. The counter is 128 bits wide and wraps.
// Elements: block b is the generator's output at counter + b, four 32-bit words. Elements of up to
// 4 bytes take one word each, word (i % 4) of block (i / 4), and keep its low bits; elements of 8
// bytes take two, the low word first: words 2*(i % 2) and the next of block (i / 2). `pred` is the
// low bit. The new state has the counter advanced by the blocks begun (block_count).
namespace plimsoll::philox {

using Block = std::array<std::uint32_t, 4>;

struct State {
  std::uint64_t key = 0;
  std::uint64_t counter_low = 0;
  std::uint64_t counter_high = 0;
  friend bool operator==(const State&, const State&) = default;
};

// The state `blocks` further on.
constexpr State advance(State state, std::uint64_t blocks) {
  state.counter_low += blocks;
  if (state.counter_low < blocks) ++state.counter_high;
  return state;
}

// The four words at the state's counter.
constexpr Block block(const State& state) {
  std::uint32_t c0 = static_cast<std::uint32_t>(state.counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(state.counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(state.counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(state.counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(state.key);
  std::uint32_t k1 = static_cast<std::uint32_t>(state.key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Elements of one block: 4, or 2 for elements of 8 bytes.
constexpr std::int64_t elements_per_block(int element_bytes) { return element_bytes == 8 ? 2 : 4; }

// Blocks that `count` elements begin.
constexpr std::int64_t block_count(std::int64_t count, int element_bytes) {
  const std::int64_t per_block = elements_per_block(element_bytes);
  return (count + per_block - 1) / per_block;
}

// `words` are the 2 or 3 numbers of an rng-bit-generator state.
constexpr State load_state(const std::uint64_t* words, std::int64_t size) {
  return {words[0], words[1], size >= 3 ? words[2] : words[0]};
}
constexpr void store_state(const State& state, std::uint64_t* words, std::int64_t size) {
  words[0] = state.key;
  words[1] = state.counter_low;
  if (size >= 3) words[2] = state.counter_high;
}

// Writes elements [begin, end) to `out`, which points at element `begin`. `element_bytes` is 1, 2,
// 4 or 8; `out` need not be aligned. With `mask` = 1, one-byte elements are 0 or 1 (pred).
inline void fill(const State& state, int element_bytes, std::int64_t begin, std::int64_t end,
                 void* out, std::uint32_t mask = 0xffffffffu) {
  const std::int64_t per_block = elements_per_block(element_bytes);
  std::byte* to = static_cast<std::byte*>(out);
  std::int64_t i = begin;
  while (i < end) {
    const Block words = block(advance(state, static_cast<std::uint64_t>(i / per_block)));
    const std::int64_t stop = i / per_block * per_block + per_block;
    for (; i < end && i < stop; ++i, to += element_bytes) {
      const std::size_t at = static_cast<std::size_t>(i % per_block);
      if (element_bytes == 8) {
        const std::uint64_t value =
            words[2 * at] | (static_cast<std::uint64_t>(words[2 * at + 1]) << 32);
        std::memcpy(to, &value, 8);
      } else if (element_bytes == 4) {
        std::memcpy(to, &words[at], 4);
      } else if (element_bytes == 2) {
        const std::uint16_t value = static_cast<std::uint16_t>(words[at]);
        std::memcpy(to, &value, 2);
      } else {
        const std::uint8_t value = static_cast<std::uint8_t>(words[at] & mask);
        std::memcpy(to, &value, 1);
      }
    }
  }
}

}  // namespace plimsoll::philox
