// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/pointer_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll {
namespace {

TEST(PointerSet, HoldsWhatWasInserted) {
  for (const std::size_t most : {0, 1, 3, 4, 1000}) {
    const std::vector<int> values(2 * most + 1);
    PointerSet<int> set(most);
    for (std::size_t i = 0; i < most; ++i) {
      EXPECT_TRUE(set.insert(&values[2 * i]));
      EXPECT_FALSE(set.insert(&values[2 * i]));
    }
    EXPECT_EQ(set.size(), most);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(set.contains(&values[i]), i % 2 == 0 && i < 2 * most);
    }
  }
}

}  // namespace
}  // namespace plimsoll
