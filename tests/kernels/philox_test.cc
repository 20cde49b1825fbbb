// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/vector_loops.h"

namespace plimsoll::philox {
namespace {

// Known answers published with the generator (Random123, philox4x32 with 10 rounds).
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(block({0, 0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  EXPECT_EQ(block({kOnes, kOnes, kOnes}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(block({0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AnyCutGivesTheSameElements) {
  const State state{7, ~std::uint64_t{0} - 3, 9};
  for (const int bytes : {1, 2, 4, 8}) {
    constexpr std::int64_t kCount = 37;
    std::vector<std::uint8_t> whole(static_cast<std::size_t>(kCount * bytes)), pieces = whole;
    fill(state, bytes, 0, kCount, whole.data());
    for (std::int64_t at = 0, step = 1; at < kCount; at += step, step = step % 5 + 1)
      fill(state, bytes, at, std::min(kCount, at + step), pieces.data() + at * bytes);
    EXPECT_EQ(whole, pieces) << bytes << " bytes";
  }
}

TEST(Philox, TheCounterCarriesIntoItsHighHalf) {
  EXPECT_EQ(advance({1, ~std::uint64_t{0}, 4}, 2), (State{1, 1, 5}));
}

TEST(Philox, WordsOfManyBlocksAreTheBlocksAcrossTheCarryToo) {
  for (const std::uint64_t before : {0u, 1u, 7u, 8u, 9u, 20u, 40u}) {
    const State state{0x299f31d0a4093822, ~std::uint64_t{0} - before, 9};
    for (const std::int64_t blocks : {0, 1, 7, 8, 9, 16, 17, 33, 64}) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(4 * blocks)), expected = words;
      kernels::philox_words(state, blocks, words.data());
      fill(state, 4, 0, 4 * blocks, expected.data());
      EXPECT_EQ(words, expected) << blocks << " blocks, " << before << " before the carry";
    }
  }
}

}  // namespace
}  // namespace plimsoll::philox
