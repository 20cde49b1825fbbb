// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/passes/rewriter.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// A kernel that makes s and max(s, 0), a product that reads the second, and a gradient that asks
// whether s is above a threshold, by this line.
std::string relu_step(const std::string& question, const std::string& rest = "",
                      const std::string& results = "w, d") {
  return "HloModule m\n"
         "make { p = f32[8,8] parameter(0)\n q = f32[8,8] parameter(1)\n"
         "s = f32[8,8] add(p, q)\n c = f32[] constant(0)\n"
         "cs = f32[8,8] broadcast(c), dimensions={}\n m = f32[8,8] maximum(s, cs)\n"
         "ROOT t = (f32[8,8], f32[8,8]) tuple(s, m) }\n"
         "gradient { s = f32[8,8] parameter(0)\n d = f32[8,8] parameter(1)\n"
         "c = f32[] constant(0)\n cs = f32[8,8] broadcast(c), dimensions={}\n " +
         question +
         "\n ROOT r = f32[8,8] select(a, d, cs) }\n"
         "ENTRY e { x = f32[8,8] parameter(0)\n y = f32[8,8] parameter(1)\n"
         "t = (f32[8,8], f32[8,8]) fusion(x, y), kind=kLoop, calls=make\n"
         "s = f32[8,8] get-tuple-element(t), index=0\n"
         "m = f32[8,8] get-tuple-element(t), index=1\n"
         "z = f32[8,8] dot(m, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n" +
         rest +
         "d = f32[8,8] fusion(s, z), kind=kLoop, calls=gradient\n"
         "w = f32[8,8] dot(m, z), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
         "ROOT r = (f32[8,8], f32[8,8]) tuple(" +
         results + ") }\n";
}

// What the gradient is computed from, and that all bits stay for values of every kind.
std::string read_by_gradient(const std::string& text) {
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return "";
  const Result<bool> changed = compare_bounded(*after);
  EXPECT_TRUE(changed.ok());
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
  const auto arguments = cases::random_arguments(*before, 7, {{-2, 2, true}, {-2, 2}});
  const auto expected = ir::interpret(*before, arguments), got = ir::interpret(*after, arguments);
  EXPECT_TRUE(expected.ok() && got.ok());
  if (expected.ok() && got.ok()) {
    EXPECT_EQ(cases::compare_bits(*expected, *got), "");
  }
  const ir::Instruction* gradient = after->entry()->find("d");
  const bool reads_maximum = gradient->operand(0)->users().size() > 2;
  EXPECT_EQ(*changed, reads_maximum);
  return reads_maximum ? "maximum" : "sum";
}

TEST(CompareBounded, AsksTheMaximumThatIsKept) {
  EXPECT_EQ(read_by_gradient(relu_step("a = pred[8,8] compare(s, cs), direction=GT")), "maximum");
  EXPECT_EQ(read_by_gradient(relu_step("a = pred[8,8] compare(cs, s), direction=LT")), "maximum");
}

TEST(CompareBounded, LeavesOtherQuestions) {
  EXPECT_EQ(read_by_gradient(relu_step("a = pred[8,8] compare(s, cs), direction=GE")), "sum");
  EXPECT_EQ(read_by_gradient(relu_step("a = pred[8,8] compare(s, cs), direction=LT")), "sum");
  // A NaN is above zero in the total order.
  EXPECT_EQ(
      read_by_gradient(relu_step("a = pred[8,8] compare(s, cs), direction=GT, type=TOTALORDER")),
      "sum");
  EXPECT_EQ(read_by_gradient(
                relu_step("o = f32[] constant(1)\n os = f32[8,8] broadcast(o), dimensions={}\n"
                          "a = pred[8,8] compare(s, os), direction=GT")),
            "sum");
  EXPECT_EQ(read_by_gradient(relu_step("n = f32[8,8] negate(s)\n"
                                       "a = pred[8,8] compare(s, n), direction=GT")),
            "sum");
}

TEST(CompareBounded, LeavesWhatIsKeptAnyway) {
  const std::string question = "a = pred[8,8] compare(s, cs), direction=GT";
  EXPECT_EQ(read_by_gradient(relu_step(question, "", "s, d")), "sum");
}

TEST(CompareBounded, KeepsNothingLongerForIt) {
  std::string text = relu_step("a = pred[8,8] compare(s, cs), direction=GT");
  const std::string last = "w = f32[8,8] dot(m, z)";
  text.replace(text.find(last), last.size(), "w = f32[8,8] dot(z, z)");
  const auto module = parse(text);
  EXPECT_FALSE(*compare_bounded(*module)) << ir::to_text(*module);
}

}  // namespace
}  // namespace plimsoll::passes
