// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/pointer_map.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll {
namespace {

TEST(PointerMap, KeepsValuesWhileItGrows) {
  const std::vector<int> all(1000);
  for (const std::size_t most : {0, 7, 1000}) {
    PointerMap<int, std::string> map(most);
    for (std::size_t i = 0; i < all.size(); i += 2) {
      const auto [value, added] = map.emplace(&all[i], std::to_string(i));
      EXPECT_TRUE(added);
      EXPECT_EQ(*value, std::to_string(i));
    }
    EXPECT_EQ(map.size(), all.size() / 2);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(map.contains(&all[i]), i % 2 == 0);
      if (i % 2 == 0) EXPECT_EQ(map.at(&all[i]), std::to_string(i));
    }
  }
}

TEST(PointerMap, TheFirstValueStays) {
  const int a = 0, b = 0;
  PointerMap<int, int> map;
  map.emplace(&a, 1);
  const auto [value, added] = map.emplace(&a, 2);
  EXPECT_FALSE(added);
  EXPECT_EQ(*value, 1);
  EXPECT_EQ(map[&b], 0);
  map[&a] += 3;
  EXPECT_EQ(map.at(&a), 4);
  EXPECT_EQ(map.size(), 2u);
}

}  // namespace
}  // namespace plimsoll
