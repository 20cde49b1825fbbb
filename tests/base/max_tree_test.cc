// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/max_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <type_traits>
#include <vector>

namespace plimsoll {
namespace {

template <typename Change>
void compare_with_a_plain_row(int size) {
  std::mt19937 rng(static_cast<unsigned>(size));
  const auto draw = [&](int n) {
    return static_cast<std::int32_t>(rng() % static_cast<unsigned>(n));
  };
  std::vector<std::int64_t> row(at(size));
  for (std::int64_t& number : row) number = draw(100);
  MaxTree<Change> tree;
  tree.build(row);
  for (int step = 0; step < 500; ++step) {
    const std::int32_t a = draw(size), b = draw(size);
    const std::int32_t from = std::min(a, b), to = std::max(a, b);
    const std::int64_t by = draw(200);
    tree.change(from, to, by);
    for (std::int32_t i = from; i <= to; ++i) row[at(i)] = Change()(row[at(i)], by);
    const std::int32_t c = draw(size), d = draw(size);
    const auto first = row.begin() + std::min(c, d), last = row.begin() + std::max(c, d) + 1;
    ASSERT_EQ(tree.max(std::min(c, d), std::max(c, d)), *std::max_element(first, last));
    const auto most = std::max_element(row.begin(), row.end());
    ASSERT_EQ(tree.max(), *most);
    if constexpr (std::is_same_v<Change, Adding>) {
      ASSERT_EQ(tree.argmax(), most - row.begin());
    }
  }
}

TEST(MaxTree, AgreesWithAPlainRow) {
  for (const int size : {1, 2, 3, 17, 64, 100}) {
    compare_with_a_plain_row<Adding>(size);
    compare_with_a_plain_row<Raising>(size);
  }
}

TEST(MaxTree, TakesOtherNumbersForARange) {
  std::vector<std::int64_t> row{5, 1, 7, 7, 2};
  MaxTree<Adding> tree;
  tree.build(row);
  EXPECT_EQ(tree.argmax(), 2);
  row = {5, 9, 0, 9, 2};
  tree.set(1, 3, row);
  EXPECT_EQ(tree.max(), 9);
  EXPECT_EQ(tree.argmax(), 1);
  EXPECT_EQ(tree.max(2, 2), 0);
}

}  // namespace
}  // namespace plimsoll
