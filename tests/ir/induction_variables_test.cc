// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/dataflow/induction_variables.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

// A loop whose counter begins at `first`, becomes `next` of i, and goes on while `test` of i holds.
std::optional<std::int64_t> rounds(const std::string& first, const std::string& next,
                                   const std::string& test, const std::string& beside = "") {
  const std::string text = fmt::format(R"(
HloModule m
body {{
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4] get-tuple-element(s), index=1
  three = s32[] constant(3)
  next = s32[] {}
  y = f32[4] add(x, x)
  ROOT r = (s32[], f32[4]) tuple(next, y)
}}
condition {{
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  ten = s32[] constant(10)
  {}
  ROOT r = pred[] {}
}}
ENTRY e {{
  x = f32[4] parameter(0)
  n = s32[] parameter(1)
  first = s32[] {}
  state = (s32[], f32[4]) tuple(first, x)
  ROOT loop = (s32[], f32[4]) while(state), condition=condition, body=body
}})",
                                       next, beside, test, first);
  const auto module = parse_module(text, "rounds");
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return round_count(*(*module)->entry()->root());
}

TEST(RoundCount, FollowsFromConstants) {
  EXPECT_EQ(rounds("constant(0)", "add(i, three)", "compare(i, ten), direction=LT"), 4);
  EXPECT_EQ(rounds("constant(0)", "add(i, three)", "compare(i, ten), direction=GT"), 0);
  EXPECT_EQ(rounds("constant(40)", "subtract(i, three)", "compare(i, ten), direction=GE"), 11);
  EXPECT_EQ(rounds("constant(1)", "multiply(i, three)", "compare(i, ten), direction=NE"),
            std::nullopt);  // never ten, for longer than it pays to look
}

TEST(RoundCount, IsNotKnownOfWhatTheProgramIsGiven) {
  EXPECT_EQ(rounds("copy(n)", "add(i, three)", "compare(i, ten), direction=LT"), std::nullopt);
  EXPECT_EQ(rounds("constant(0)", "add(i, i)", "compare(i, ten), direction=LT"), std::nullopt);
}

TEST(RoundCount, IsNotKnownWhereTheConditionDoesMore) {
  EXPECT_EQ(rounds("constant(0)", "add(i, three)", "compare(i, ten), direction=LT",
                   "z = f32[] custom-call(i), custom_call_target=\"tell\", "
                   "custom_call_has_side_effect=true"),
            std::nullopt);
}

}  // namespace
}  // namespace plimsoll::ir
