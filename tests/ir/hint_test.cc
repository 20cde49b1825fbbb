// SPDX-License-Identifier: Apache-2.0
#include "runtime/ir/hint.h"

#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/text/text.h"

namespace plimsoll::ir {
namespace {

Attributes with(std::string text) {
  Attributes attributes;
  attributes.extra.emplace_back("frontend_attributes", std::move(text));
  return attributes;
}

TEST(Hint, IsFoundAmongOtherFrontendAttributes) {
  const Attributes attributes = with(
      R"({a={b = 1 : i32, c = dense<1> : tensor<i32>},x="},plimsoll.hint=\"no\"",plimsoll.hint="keep"})");
  EXPECT_EQ(find_frontend_attribute(attributes, kHintAttribute), "keep");
  EXPECT_EQ(find_frontend_attribute(attributes, "hint"), std::nullopt);
}

TEST(Hint, SettingReplacesOnlyTheHint) {
  Attributes attributes = with(R"({a="b",plimsoll.hint="keep"})");
  set_hint(attributes, Hint::swap);
  EXPECT_EQ(attributes.find_extra("frontend_attributes"), R"({a="b",plimsoll.hint="swap"})");
  set_hint(attributes, Hint::none);
  EXPECT_EQ(attributes.find_extra("frontend_attributes"), R"({a="b"})");
  Attributes empty;
  set_hint(empty, Hint::recompute);
  EXPECT_EQ(empty.find_extra("frontend_attributes"), R"({plimsoll.hint="recompute"})");
  set_hint(empty, Hint::none);
  EXPECT_TRUE(empty.extra.empty());
}

std::string program(const std::string& hint) {
  return "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n"
         "  ROOT y = f32[4] negate(x), frontend_attributes={plimsoll.hint=\"" +
         hint + "\"}\n}\n";
}

TEST(Hint, SurvivesTheText) {
  const auto module = parse_module(program("compress"), "m");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  EXPECT_EQ(hint_of(*(*module)->entry()->find("y")), Hint::compress);
  EXPECT_NE(to_text(**module).find("frontend_attributes={plimsoll.hint=\"compress\"}"),
            std::string::npos);
}

TEST(Hint, UnknownWordIsAnErrorThatNamesTheInstruction) {
  const auto module = parse_module(program("kep"), "m");
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.status().message().find("'y'"), std::string::npos);
  EXPECT_NE(module.status().message().find("'kep' is not one of none, keep, recompute"),
            std::string::npos)
      << module.status().message();
}

}  // namespace
}  // namespace plimsoll::ir
