// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// The root of `body` (of parameters x, y, w of `dtype`[8,8]) after the pass and a clean-up.
std::string kept(const std::string& body, const std::string& dtype = "bf16") {
  const std::string array = dtype + "[8,8]";
  std::string lines = body;
  for (std::size_t at = 0; (at = lines.find('$', at)) != std::string::npos;) {
    lines.replace(at, 1, array);
  }
  const auto module =
      parse("HloModule m\nENTRY e {\n x = " + array + " parameter(0)\n y = " + array +
            " parameter(1)\n w = " + array + " parameter(2)\n" + lines + "}\n");
  if (module == nullptr) return "";
  const auto before = module->clone();
  const Result<bool> changed = keep_excess_precision(*module);
  EXPECT_TRUE(changed.ok());
  EXPECT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
  EXPECT_TRUE(simplify(*module).ok());
  EXPECT_TRUE(eliminate_common_subexpressions(*module).ok());
  // Half a step of the dtype for each operation, or so.
  const auto arguments = cases::random_arguments(*before, 11, {{0.5, 2}, {0.5, 2}, {0.5, 2}});
  const auto expected = ir::interpret(*before, arguments), got = ir::interpret(*module, arguments);
  EXPECT_TRUE(expected.ok() && got.ok());
  if (expected.ok() && got.ok()) {
    EXPECT_EQ(cases::compare_close(*expected, *got, 0.03), "");
  }
  const std::string text = expression(*module->entry()->root());
  EXPECT_EQ(*changed, text != expression(*before->entry()->root())) << text;
  return text;
}

constexpr const char* kDot = ", lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";

TEST(ExcessPrecision, RoundsOnceAtTheEndOfAChain) {
  EXPECT_EQ(kept("a = $ multiply(x, x)\n b = $ add(a, y)\n ROOT c = $ sqrt(b)\n"),
            "convert(sqrt(add(multiply(convert(p0), convert(p0)), convert(p1))))");
  EXPECT_EQ(kept("a = $ multiply(x, x)\n ROOT c = $ sqrt(a)\n", "f16"),
            "convert(sqrt(multiply(convert(p0), convert(p0))))");
}

TEST(ExcessPrecision, LeavesSingleOperationsAndWiderOnes) {
  EXPECT_EQ(kept("ROOT a = $ multiply(x, y)\n"), "multiply(p0, p1)");
  EXPECT_EQ(kept("a = $ multiply(x, x)\n ROOT c = $ sqrt(a)\n", "f32"), "sqrt(multiply(p0, p0))");
  // A maximum has a value of its operands: it takes no more bits than they have.
  EXPECT_EQ(kept("a = $ maximum(x, y)\n ROOT c = $ sqrt(a)\n"), "sqrt(maximum(p0, p1))");
}

TEST(ExcessPrecision, GoesThroughWhatSelects) {
  EXPECT_EQ(kept("a = $ add(x, y)\n b = $ maximum(a, w)\n ROOT c = $ sqrt(b)\n"),
            "convert(sqrt(maximum(add(convert(p0), convert(p1)), convert(p2))))");
}

// There are functions of bf16 and f16 that take less time than those of f32.
TEST(ExcessPrecision, LeavesFunctionsThatShortDtypesHaveOfTheirOwn) {
  EXPECT_EQ(kept("a = $ multiply(x, x)\n b = $ add(a, y)\n c = $ tanh(b)\n d = $ multiply(c, y)\n"
                 "ROOT e = $ add(d, w)\n"),
            "convert(add(multiply(convert(tanh(convert(add(multiply(convert(p0), convert(p0)), "
            "convert(p1))))), convert(p1)), convert(p2)))");
}

TEST(ExcessPrecision, HandsAWiderReaderAllBits) {
  EXPECT_EQ(kept("a = $ multiply(x, y)\n ROOT c = f32[8,8] convert(a)\n"),
            "multiply(convert(p0), convert(p1))");
}

TEST(ExcessPrecision, RoundsWhatIsStoredMovedOrCompared) {
  EXPECT_EQ(kept(std::string("a = $ multiply(x, y)\n ROOT c = $ dot(a, w)") + kDot),
            "dot(multiply(p0, p1), p2)");
  EXPECT_EQ(kept("a = $ multiply(x, y)\n t = $ transpose(a), dimensions={1,0}\n"
                 "ROOT c = $ sqrt(t)\n"),
            "sqrt(transpose(multiply(p0, p1)))");
  EXPECT_EQ(kept("a = $ multiply(x, y)\n q = pred[8,8] compare(a, w), direction=GT\n"
                 "ROOT c = $ select(q, x, y)\n"),
            "select(compare(multiply(p0, p1), p2), p0, p1)");
}

TEST(ExcessPrecision, KeepsTheProgramsOwnRounding) {
  // What is left of a number after it is rounded, as compensated sums compute it.
  EXPECT_EQ(kept("f = f32[8,8] convert(x)\n s = f32[8,8] sine(f)\n h = $ convert(s)\n"
                 "g = f32[8,8] convert(h)\n ROOT l = f32[8,8] subtract(s, g)\n"),
            "subtract(sine(convert(p0)), convert(convert(sine(convert(p0)))))");
}

// The gradient of an activation reads what the forward pass stored, at a later stage.
TEST(ExcessPrecision, ReadsRoundedWhatWasStoredBefore) {
  const std::string step = std::string("a = $ multiply(x, x)\n h = $ sqrt(a)\n z = $ dot(h, w)") +
                           kDot + "q = $ multiply(h, z)\n ROOT d = $ add(q, y)\n";
  const std::string h = "convert(sqrt(multiply(convert(p0), convert(p0))))";
  EXPECT_EQ(kept(step),
            "convert(add(multiply(convert(" + h + "), convert(dot(" + h + ", p2))), convert(p1)))");
}

TEST(ExcessPrecision, IsNotAmongThePassesThatKeepBits) {
  for (const PassInfo& pass : all_passes()) EXPECT_NE(pass.name, "excess-precision");
  int found = 0;
  for (const PassInfo& pass : rounding_passes()) found += pass.name == "excess-precision" ? 1 : 0;
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace plimsoll::passes
