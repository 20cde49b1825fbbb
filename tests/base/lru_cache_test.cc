// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/lru_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {
namespace {

// Every key collides with those of the same length.
struct LengthHash {
  std::size_t operator()(std::string_view text) const { return text.size(); }
};
using Cache = LruCache<std::string, int, LengthHash>;

std::vector<std::string> keys_of(const Cache& cache) {
  std::vector<std::string> keys;
  for (const auto& entry : cache) keys.push_back(entry.key);
  return keys;
}

TEST(LruCache, ReplacesTheLeastRecentlyUsed) {
  Cache cache(3);
  for (const char* key : {"a", "b", "c"}) cache.insert(key, key[0]);
  ASSERT_NE(cache.find("a"), nullptr);
  cache.insert("d", 'd');
  EXPECT_EQ(cache.find("b"), nullptr);
  EXPECT_EQ(keys_of(cache), (std::vector<std::string>{"d", "a", "c"}));
  EXPECT_EQ(cache.size(), 3u);
}

TEST(LruCache, TellsKeysOfTheSameHashApart) {
  Cache cache(8);
  cache.insert("ab", 1);
  cache.insert("cd", 2);
  EXPECT_EQ(*cache.find(std::string_view("ab")), 1);
  EXPECT_EQ(*cache.find(std::string_view("cd")), 2);
  EXPECT_EQ(cache.find("ef"), nullptr);
  cache.erase("ef");
  cache.erase("ab");
  EXPECT_EQ(cache.find("ab"), nullptr);
  EXPECT_EQ(*cache.find("cd"), 2);
}

TEST(LruCache, SetsTheValueOfAKeyThatIsThere) {
  Cache cache(2);
  cache.insert("a", 1);
  cache.insert("b", 2);
  EXPECT_EQ(cache.insert("a", 3), 3);
  EXPECT_EQ(*cache.find("b"), 2);
  EXPECT_EQ(*cache.find("a"), 3);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(LruCache, KeepsEntriesWhereTheyAre) {
  Cache cache(100);
  int* const first = &cache.insert("first", 1);
  for (int i = 0; i < 99; ++i) cache.insert(std::to_string(i), i);
  EXPECT_EQ(cache.find("first"), first);
  EXPECT_EQ(*first, 1);
}

}  // namespace
}  // namespace plimsoll
