// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/pack/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "runtime/planner/pack/pack_branch.h"
#include "runtime/planner/pack/pack_eject.h"
#include "runtime/planner/pack/pack_search.h"

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

// Cuts a part off a buffer, in time or in bytes; nothing where it is too small.
std::optional<Lifetime> cut(Lifetime& whole, std::mt19937& rng) {
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(end));
  };
  Lifetime part = whole;
  if (rng() % 2 == 0) {
    if (whole.size < 2) return std::nullopt;
    part.size = 1 + below(whole.size - 1);
    whole.size -= part.size;
  } else {
    if (whole.upper - whole.lower < 2) return std::nullopt;
    part.lower += 1 + below(whole.upper - whole.lower - 1);
    whole.upper = part.lower;
  }
  return part;
}

// Cuts a rectangle of time and bytes into buffers, so that a packing without any hole exists.
std::vector<Lifetime> cut_rectangle(std::uint32_t seed, std::size_t count) {
  std::mt19937 rng(seed);
  std::vector<Lifetime> lives{{0, 1 << 12, 1 << 14}};
  while (lives.size() < count) {
    if (const auto part = cut(lives[rng() % lives.size()], rng)) lives.push_back(*part);
  }
  return lives;
}

TEST(Pack, SearchFindsPackingsWithoutHoles) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const auto lives = cut_rectangle(seed, 40);
    PackOptions options;
    options.effort = 10;
    const Packing packing = pack(lives, options);
    EXPECT_EQ(packing.load, 1 << 14);
    EXPECT_EQ(packing.height, packing.load) << seed;
    expect_sound(lives, packing, 1);
  }
}

// The same, but larger buffers are likelier to be cut: none is much larger than the others, which
// makes it far harder to find where they were.
std::vector<Lifetime> cut_evenly(std::uint32_t seed, std::size_t count) {
  std::mt19937 rng(seed);
  std::vector<Lifetime> lives{{0, 1 << 8, 1 << 14}};
  const auto area = [](const Lifetime& life) { return (life.upper - life.lower) * life.size; };
  while (lives.size() < count) {
    std::size_t chosen = rng() % lives.size();
    for (int i = 0; i < 2; ++i) {
      const std::size_t other = rng() % lives.size();
      if (area(lives[other]) > area(lives[chosen])) chosen = other;
    }
    if (const auto part = cut(lives[chosen], rng)) lives.push_back(*part);
  }
  return lives;
}

// A search by rising offsets alone misses two of the first ten, and five of the others.
TEST(Pack, SearchFindsEvenPackingsWithoutHoles) {
  const auto expect_found = [](std::uint32_t seed, std::size_t count) {
    const auto lives = cut_evenly(seed, count);
    PackOptions options;
    options.effort = 10;
    options.target = 1 << 14;  // asked for, hence both searches
    const Packing packing = pack(lives, options);
    EXPECT_EQ(packing.height, packing.load) << count << " buffers, seed " << seed;
    expect_sound(lives, packing, 1);
  };
  for (std::uint32_t seed = 0; seed < 10; ++seed) expect_found(seed, 150);
  for (const std::uint32_t seed : {0, 1, 3, 4, 5, 6, 9}) expect_found(seed, 250);
}

TEST(Pack, ATargetAboveTheLoadIsLowEnough) {
  const auto lives = random_lives(3, 200);
  PackOptions options;
  options.target = 1'000'000;
  const Packing packing = pack(lives, options);
  EXPECT_LE(packing.height, options.target);
  expect_sound(lives, packing, 1);
}

// What is enough ends the same search earlier.
TEST(Pack, EnoughIsFoundIfAndOnlyIfItIsFoundWithoutBeingAskedFor) {
  int holes = 0;
  for (std::uint32_t seed = 0; seed < 25; ++seed) {
    const auto lives = random_lives(seed, seed % 5 == 0 ? 900 : 60);
    const Packing best = pack(lives, PackOptions());
    holes += best.height > best.load ? 1 : 0;
    const std::int64_t span = best.height / 50;
    for (const std::int64_t enough : {best.height - span, best.height - 1, best.height,
                                      best.height + 1, best.height + span, 2 * best.height}) {
      PackOptions options;
      options.enough = enough;
      const Packing packing = pack(lives, options);
      expect_sound(lives, packing, 1);
      if (enough < best.height) {
        EXPECT_EQ(packing.height, best.height) << seed;
      } else {
        EXPECT_LE(packing.height, enough) << seed;
      }
    }
  }
  EXPECT_GT(holes, 0);
}

// Too many for a search, and most of them alive far from the fullest time step.
TEST(Pack, ManyBuffersLieAroundTheFullestTimeStep) {
  std::mt19937 rng(1);
  std::vector<Lifetime> lives;
  for (int i = 0; i < 12'000; ++i) {
    const std::int64_t lower = rng() % 8'000;
    const auto length = static_cast<std::int64_t>(rng() % 60);
    lives.push_back({lower, lower + 1 + length, 1 + static_cast<std::int64_t>(rng() % 500)});
  }
  for (int i = 0; i < 300; ++i) {
    const std::int64_t lower = 3'000 + static_cast<std::int64_t>(rng() % 1'000);
    lives.push_back({lower, lower + 1'500, 200});
  }
  PackOptions options;
  options.effort = 50;
  const Packing packing = pack(lives, options);
  EXPECT_LE(packing.height, packing.load + packing.load / 100);
  std::vector<std::size_t> order(lives.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return lives[a].lower < lives[b].lower; });
  std::vector<std::size_t> alive;
  for (const std::size_t i : order) {
    std::erase_if(alive, [&](std::size_t k) { return lives[k].upper <= lives[i].lower; });
    for (const std::size_t k : alive) {
      ASSERT_TRUE(packing.offsets[i] + lives[i].size <= packing.offsets[k] ||
                  packing.offsets[k] + lives[k].size <= packing.offsets[i])
          << i << " and " << k;
    }
    alive.push_back(i);
  }
}

// Over all orders, each buffer placed on what lies below.
std::int64_t least_height(const std::vector<Lifetime>& lives) {
  std::vector<std::size_t> order(lives.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  do {
    std::array<std::int64_t, 32> floor{};
    std::int64_t height = 0;
    for (const std::size_t i : order) {
      std::int64_t top = 0;
      const auto first = floor.begin() + lives[i].lower, last = floor.begin() + lives[i].upper;
      for (auto f = first; f != last; ++f) top = std::max(top, *f);
      std::fill(first, last, top + lives[i].size);
      height = std::max(height, top + lives[i].size);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(PackSearch, FindsTheLeastHeightUnderEveryGuide) {
  using Key = PackGuide::Key;
  std::mt19937 rng(0);
  for (int trial = 0; trial < 40; ++trial) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 7; ++i) {
      const std::int64_t lower = rng() % 8;
      lives.push_back({lower, lower + 1 + static_cast<std::int64_t>(rng() % 4),
                       1 + static_cast<std::int64_t>(rng() % 9)});
    }
    const std::int64_t least = least_height(lives);
    const PackInstance instance(lives, 1);
    PackSearch search(instance);
    for (const auto first : {PackGuide::First::lowest, PackGuide::First::rank,
                             PackGuide::First::lowest_then_tightest}) {
      PackGuide guide{first, {Key::load, Key::end, Key::size}, {}, 0};
      PackBudget budget(1'000'000'000, 0);
      const auto found = search.run(guide, least, 1'000'000, budget);
      ASSERT_TRUE(found) << trial;
      EXPECT_EQ(found->height, least);
      EXPECT_FALSE(search.run(guide, least - 1, 1'000'000, budget));
      EXPECT_TRUE(search.exhausted());
    }
  }
}

// With few sizes, so that some buffers are equal.
TEST(PackBranch, FindsTheLeastHeightUnderEveryGuide) {
  using Section = PackBranchGuide::Section;
  using Item = PackBranchGuide::Item;
  std::mt19937 rng(1);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 7; ++i) {
      const std::int64_t lower = rng() % 5;
      lives.push_back({lower, lower + 1 + static_cast<std::int64_t>(rng() % 4),
                       1 + static_cast<std::int64_t>(rng() % (trial % 2 == 0 ? 3 : 9))});
    }
    const std::int64_t least = least_height(lives);
    const PackInstance instance(lives, 1);
    PackBranch search(instance);
    for (const auto section : {Section::floor, Section::firsts}) {
      for (const auto item : {Item::area, Item::length, Item::sections, Item::lowest_then_length}) {
        PackBranchGuide guide{section, item, {}};
        PackBudget budget(1'000'000'000, 0);
        const auto found = search.run(guide, least, 1'000'000, budget);
        ASSERT_TRUE(found) << trial;
        EXPECT_EQ(found->height, least);
        Packing packing{found->offsets, found->height, instance.max_load};
        expect_sound(lives, packing, 1);
        EXPECT_FALSE(search.run(guide, least - 1, 1'000'000, budget));
        EXPECT_TRUE(search.exhausted());
      }
    }
  }
}

TEST(PackBranch, EndsAtTheFailuresAllowedAndGoesOnWithWhatItLearnt) {
  const auto lives = cut_evenly(0, 400);
  const PackInstance instance(lives, 1);
  PackBranch search(instance);
  PackBranchGuide guide;
  PackBudget budget(1'000'000'000, 0);
  EXPECT_FALSE(search.run(guide, instance.max_load, 3, budget));
  EXPECT_FALSE(search.exhausted());
  EXPECT_GT(*std::max_element(guide.trouble.begin(), guide.trouble.end()), 1);
}

// All lie on top of each other at first.
TEST(PackEjection, LowersAStackToTheLoad) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 64; ++i) lives.push_back({i / 8 * 10, i / 8 * 10 + 15, 64 * (1 + i % 3)});
  const PackInstance instance(lives, 1);
  PackSolution stack;
  for (const auto& item : instance.items) {
    stack.offsets.push_back(stack.height);
    stack.height += item.size;
  }
  PackBudget budget(1'000'000'000, 0);
  PackEjection ejection(instance, stack);
  ejection.run(instance.max_load, 20'000, budget);
  Packing packing{ejection.best().offsets, ejection.best().height, instance.max_load};
  EXPECT_EQ(packing.height, packing.load);
  expect_sound(lives, packing, 1);
}

// Heights that are asked for may be any number.
TEST(PackEjection, KeepsOffsetsAligned) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    std::vector<Lifetime> lives = random_lives(seed, 150);
    std::erase_if(lives, [](const Lifetime& life) { return life.size == 0; });
    const PackInstance instance(lives, 64);
    PackSolution stack;
    for (const auto& item : instance.items) {
      stack.offsets.push_back(stack.height);
      stack.height += item.size;
    }
    PackBudget budget(1'000'000'000, 0);
    PackEjection ejection(instance, stack);
    ejection.run(instance.max_load + 17, 5'000, budget);
    for (const std::int64_t offset : ejection.best().offsets) ASSERT_EQ(offset % 64, 0) << seed;
  }
}

TEST(PackEjection, KeepsTheBestWhenMovesEndInBetween) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    std::vector<Lifetime> lives = random_lives(seed, 150);
    std::erase_if(lives, [](const Lifetime& life) { return life.size == 0; });
    const PackInstance instance(lives, 1);
    const Packing start = pack(lives, 1);
    PackEjection ejection(instance, {start.offsets, start.height});
    PackBudget budget(1'000'000'000, 0);
    std::int64_t before = start.height;
    for (int i = 0; i < 20; ++i) {
      ejection.run(instance.max_load, 37, budget);
      const Packing packing{ejection.best().offsets, ejection.best().height, instance.max_load};
      ASSERT_LE(packing.height, before);
      before = packing.height;
      expect_sound(lives, packing, 1);
    }
  }
}

TEST(Pack, EqualInputGivesEqualOffsets) {
  const auto lives = random_lives(5, 300);
  EXPECT_EQ(pack(lives, 64).offsets, pack(lives, 64).offsets);
}

}  // namespace
}  // namespace plimsoll::planner
