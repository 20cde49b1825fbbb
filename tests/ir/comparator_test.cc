// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/fusions/comparator.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

// A comparator of two operands of `dtype`, by `body` of a0, b0, a1 and b1.
std::unique_ptr<Module> comparator(const std::string& body, const std::string& dtype = "f32") {
  std::string text = "HloModule m\nENTRY order {\n";
  int number = 0;
  for (const char* name : {"a0", "b0", "a1", "b1"}) {
    text += "  " + std::string(name) + " = " + dtype + "[] parameter(" + std::to_string(number++) +
            ")\n";
  }
  auto module = parse_module(text + "  " + body + "\n}\n", "comparator");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return std::move(*module);
}

bool is_total(const std::string& body, const std::string& dtype = "f32") {
  return is_total_order(*comparator(body, dtype)->entry());
}

const std::string kTotal = ", type=TOTALORDER";

TEST(Comparator, ReadsWhichElementsAreCompared) {
  const auto module = comparator("ROOT r = pred[] compare(b1, a1), direction=GT");
  const auto found = read_pair_comparison(*module->entry()->root());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key, 1u);
  EXPECT_EQ(found->direction, ComparisonDirection::lt);
  EXPECT_FALSE(found->is_total());
}

TEST(Comparator, TotalComparisonsOrderWhateverTheyGet) {
  EXPECT_TRUE(is_total("ROOT r = pred[] compare(a0, b0), direction=LT" + kTotal));
  EXPECT_TRUE(is_total("ROOT r = pred[] compare(a0, b0), direction=GE", "s32"));
  EXPECT_TRUE(
      is_total("x = s32[] negate(a0)\n y = s32[] negate(b0)\n ROOT r = pred[] compare(x, "
               "y), direction=LT",
               "s32"));
  // A NaN is neither before nor behind.
  EXPECT_FALSE(is_total("ROOT r = pred[] compare(a0, b0), direction=LT"));
  EXPECT_FALSE(is_total("ROOT r = pred[] compare(a0, b0), direction=NE", "s32"));
  // Different elements, and different functions of them.
  EXPECT_FALSE(is_total("ROOT r = pred[] compare(a0, b1), direction=LT", "s32"));
  EXPECT_FALSE(is_total("ROOT r = pred[] compare(a0, a0), direction=LT", "s32"));
  EXPECT_FALSE(
      is_total("x = s32[] negate(a0)\n ROOT r = pred[] compare(x, b0), direction=LT", "s32"));
}

TEST(Comparator, LaterKeysDecideWhereEarlierOnesAreEqual) {
  const auto of = [](const std::string& equals, const std::string& second,
                     const std::string& root = "or(n, x)") {
    return "x = pred[] compare(a0, b0), direction=LT" + kTotal + "\n e = pred[] compare(" + equals +
           kTotal + "\n y = pred[] compare(" + second +
           "\n n = pred[] and(y, e)\n ROOT r = pred[] " + root;
  };
  EXPECT_TRUE(is_total(of("b0, a0), direction=EQ", "a1, b1), direction=GT" + kTotal)));
  EXPECT_FALSE(is_total(of("a0, b0), direction=EQ", "a1, b1), direction=GT")));
  EXPECT_FALSE(is_total(of("a1, b1), direction=EQ", "a1, b1), direction=GT" + kTotal)));
  EXPECT_FALSE(is_total(of("a0, b0), direction=NE", "a1, b1), direction=GT" + kTotal)));
  EXPECT_FALSE(is_total(of("a0, b0), direction=EQ", "a1, b1), direction=GE" + kTotal)));
  EXPECT_FALSE(
      is_total(of("a0, b0), direction=EQ", "a1, b1), direction=GT" + kTotal, "and(n, x)")));
}

TEST(Comparator, OneComparisonOrdersNumbers) {
  EXPECT_TRUE(
      order_of_numbers(*comparator("ROOT r = pred[] compare(a0, b0), direction=LE")->entry())
          .has_value());
  EXPECT_FALSE(
      order_of_numbers(*comparator("ROOT r = pred[] compare(a0, b0), direction=EQ")->entry())
          .has_value());
}

}  // namespace
}  // namespace plimsoll::ir
