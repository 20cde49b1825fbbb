// SPDX-License-Identifier: Apache-2.0
#include "jit/keys/text_cache.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace plimsoll::jit {
namespace {

TEST(TextCache, TellsTextsOfAnyLengthApart) {
  TextCache<int> cache;
  // Every length around the steps of the hash, and a change in every place.
  for (int length = 0; length < 100; ++length) {
    const std::string zeros(static_cast<std::size_t>(length), '\0');
    cache.insert(zeros, length);
    for (int i = 0; i < length; ++i) {
      std::string other = zeros;
      other[static_cast<std::size_t>(i)] = 'x';
      cache.insert(other, 1000 * length + i);
    }
  }
  for (int length = 0; length < 100; ++length) {
    std::string text(static_cast<std::size_t>(length), '\0');
    ASSERT_NE(cache.find(text), nullptr);
    EXPECT_EQ(*cache.find(text), length);
    for (int i = 0; i < length; ++i) {
      std::string other = text;
      other[static_cast<std::size_t>(i)] = 'x';
      ASSERT_NE(cache.find(other), nullptr);
      EXPECT_EQ(*cache.find(other), 1000 * length + i);
    }
  }
  EXPECT_EQ(cache.find("y"), nullptr);
}

TEST(TextCache, KeepsTheFirstValueUntilItIsErased) {
  TextCache<int> cache;
  cache.insert("a", 1);
  cache.insert("a", 2);
  EXPECT_EQ(*cache.find("a"), 1);
  cache.erase("a");
  cache.erase("b");
  EXPECT_EQ(cache.find("a"), nullptr);
  cache.insert("a", 2);
  EXPECT_EQ(*cache.find("a"), 2);
}

TEST(TextCache, ForgetsTheOldestOfTooMany) {
  TextCache<int> cache;
  int kept = 0;
  for (int i = 0; i < 20000; ++i) cache.insert(std::to_string(i), i);
  for (int i = 0; i < 20000; ++i) {
    const int* found = cache.find(std::to_string(i));
    if (found == nullptr) continue;
    EXPECT_EQ(*found, i);
    ++kept;
  }
  EXPECT_GT(kept, 1000);
  EXPECT_LT(kept, 20000);
  EXPECT_EQ(cache.find("0"), nullptr);
  EXPECT_NE(cache.find("19999"), nullptr);
}

TEST(TextHash, ChangesWithEveryBit) {
  std::set<std::uint64_t> seen;
  std::string text(77, 'a');
  seen.insert(text_hash(text));
  for (char& c : text) {
    for (int bit = 0; bit < 8; ++bit) {
      c = static_cast<char>(c ^ (1 << bit));
      seen.insert(text_hash(text));
      c = static_cast<char>(c ^ (1 << bit));
    }
  }
  EXPECT_EQ(seen.size(), 77u * 8 + 1);
}

}  // namespace
}  // namespace plimsoll::jit
