// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/unique_names.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace plimsoll::ir {
namespace {

TEST(UniqueNames, CountUpWhereANameIsTaken) {
  UniqueNames names;
  EXPECT_EQ(names.take("add"), "add");
  EXPECT_EQ(names.take("add"), "add.1");
  EXPECT_EQ(names.take("add.3"), "add.3");
  EXPECT_EQ(names.take("add.1"), "add.2");
  EXPECT_EQ(names.take("add"), "add.4");
  EXPECT_EQ(names.take("add.5"), "add.5");
  EXPECT_EQ(names.take("add.5"), "add.6");
}

TEST(UniqueNames, ABaseOfWhichAnotherIsAskedForIsTaken) {
  UniqueNames names;
  EXPECT_EQ(names.take("x.7"), "x.7");
  EXPECT_EQ(names.take("x.7"), "x.1");
  EXPECT_EQ(names.take("x"), "x.2");
  EXPECT_EQ(names.take("y.7"), "y.7");
  EXPECT_EQ(names.take("y"), "y");
}

TEST(UniqueNames, OnlyWhatCountingGivesIsANumber) {
  UniqueNames names;
  for (const char* name : {"x.0", "x.01", ".1", "x.", "x.1", "x.99999999999999999999", "x.a"}) {
    EXPECT_EQ(names.take(name), name);
  }
  EXPECT_EQ(names.take("x.01"), "x.2");
  EXPECT_EQ(names.take(".1"), ".1.1");
  EXPECT_EQ(names.take("x."), "x..1");
  EXPECT_EQ(names.take("x.99999999999999999999"), "x.3");
}

TEST(UniqueNames, NumbersOfNumbersAreNamesOfTheirOwn) {
  UniqueNames names;
  EXPECT_EQ(names.take("a.3.1"), "a.3.1");
  EXPECT_EQ(names.take("a.3.1"), "a.3.2");
  EXPECT_EQ(names.take("a.3"), "a.1");
}

TEST(UniqueNames, NoneIsGivenTwice) {
  std::mt19937 random(7);
  UniqueNames names;
  std::set<std::string> given;
  const std::vector<std::string> parts = {"a", "b", ".1", ".2", ".3", ".10", ".01", "."};
  for (int i = 0; i < 20'000; ++i) {
    std::string wanted;
    for (std::size_t k = 1 + random() % 3; k > 0; --k) wanted += parts[random() % parts.size()];
    const bool is_free = !given.contains(wanted);
    const std::string name = names.take(wanted);
    EXPECT_TRUE(given.insert(name).second) << name;
    EXPECT_TRUE(name != wanted || is_free) << name;
  }
}

}  // namespace
}  // namespace plimsoll::ir
