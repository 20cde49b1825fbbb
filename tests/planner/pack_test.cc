// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace plimsoll::planner {
namespace {

void expect_sound(const std::vector<Lifetime>& lives, const Packing& packing,
                  std::int64_t alignment) {
  ASSERT_EQ(packing.offsets.size(), lives.size());
  EXPECT_GE(packing.height, packing.load);
  for (std::size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].size == 0 || lives[i].lower >= lives[i].upper) continue;
    EXPECT_GE(packing.offsets[i], 0);
    EXPECT_EQ(packing.offsets[i] % alignment, 0);
    EXPECT_LE(packing.offsets[i] + lives[i].size, packing.height);
    for (std::size_t j = 0; j < i; ++j) {
      if (lives[j].size == 0 || lives[j].lower >= lives[j].upper) continue;
      const bool together = lives[i].lower < lives[j].upper && lives[j].lower < lives[i].upper;
      const bool apart = packing.offsets[i] + lives[i].size <= packing.offsets[j] ||
                         packing.offsets[j] + lives[j].size <= packing.offsets[i];
      ASSERT_TRUE(!together || apart) << i << " and " << j;
    }
  }
}

std::vector<Lifetime> random_lives(std::uint32_t seed, int count) {
  std::mt19937 rng(seed);
  std::vector<Lifetime> lives;
  for (int i = 0; i < count; ++i) {
    const std::int64_t lower = rng() % 200;
    lives.push_back({lower, lower + 1 + static_cast<std::int64_t>(rng() % (i % 7 == 0 ? 100 : 10)),
                     static_cast<std::int64_t>(rng() % 1000)});
  }
  return lives;
}

TEST(Pack, BuffersThatLiveTogetherNeverOverlap) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    const auto lives = random_lives(seed, 150);
    expect_sound(lives, pack(lives, 64), 64);
  }
}

TEST(Pack, StaysNearTheLoadOnRandomLives) {
  std::int64_t heights = 0, loads = 0;
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const Packing packing = pack(random_lives(seed, 200), 1);
    heights += packing.height;
    loads += packing.load;
  }
  EXPECT_LE(heights, loads + loads / 10);
}

TEST(Pack, ReachesTheLoadOfANest) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 20; ++i) lives.push_back({i, 40 - i, 64 * (i + 1)});
  const Packing packing = pack(lives, 64);
  EXPECT_EQ(packing.height, packing.load);
  expect_sound(lives, packing, 64);
}

TEST(Pack, EmptyLivesAndSizesTakeNothing) {
  const std::vector<Lifetime> lives{{0, 5, 0}, {3, 3, 100}, {0, 1, 1}};
  const Packing packing = pack(lives, 64);
  EXPECT_EQ(packing.height, 64);
  EXPECT_EQ(pack({}, 64).height, 0);
}

TEST(Pack, EqualInputGivesEqualOffsets) {
  const auto lives = random_lives(5, 300);
  EXPECT_EQ(pack(lives, 64).offsets, pack(lives, 64).offsets);
}

}  // namespace
}  // namespace plimsoll::planner
