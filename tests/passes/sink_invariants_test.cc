// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// A loop that is handed `given`, of this shape and made by these lines of the entry, and reads it
// by `reading`, a line that makes f32[8,8] `a` of it and of f32[8,8] `x`.
std::string loop_given(const std::string& shape, const std::string& lines,
                       const std::string& reading) {
  const std::string state = "(s32[], f32[8,8], " + shape + ")";
  return "HloModule m\nmore {\n s = " + state +
         " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
         " ROOT more = pred[] compare(i, n), direction=LT\n}\nbody {\n s = " +
         state +
         " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
         " x = f32[8,8] get-tuple-element(s), index=1\n given = " +
         shape +
         " get-tuple-element(s), index=2\n one = s32[] constant(1)\n next = s32[] add(i, one)\n " +
         reading + "\n y = f32[8,8] tanh(a)\n ROOT t = " + state +
         " tuple(next, y, given)\n}\nENTRY e {\n x = f32[8,8] parameter(0)\n"
         " v = f32[8] parameter(1)\n w = f32[8,8] parameter(2)\n start = s32[] constant(0)\n" +
         lines + "\n state = " + state + " tuple(start, x, given)\n loop = " + state +
         " while(state), condition=more, body=body\n"
         " ROOT r = f32[8,8] get-tuple-element(loop), index=1\n}\n";
}

// The leaves of the loop's state afterwards; the results are the same bits.
std::string state_after(const std::string& text) {
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return "";
  const Result<bool> changed = sink_invariants(*after);
  EXPECT_TRUE(changed.ok());
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
  EXPECT_TRUE(simplify(*after).ok() && eliminate_dead_code(*after).ok());
  const auto arguments = cases::random_arguments(*before, 5);
  const auto expected = ir::interpret(*before, arguments), got = ir::interpret(*after, arguments);
  EXPECT_TRUE(expected.ok() && got.ok());
  if (expected.ok() && got.ok()) {
    EXPECT_EQ(cases::compare_bits(*expected, *got), "");
  }
  for (const auto& instruction : after->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::while_) continue;
    std::string leaves;
    for (const ir::Shape* leaf : ir::leaves(instruction->shape())) {
      leaves += (leaves.empty() ? "" : " ") + leaf->to_string();
    }
    return leaves;
  }
  return "no loop";
}

TEST(SinkInvariants, MasksOfIndices) {
  const std::string mask =
      " i0 = s32[8,8] iota(), iota_dimension=0\n i1 = s32[8,8] iota(), iota_dimension=1\n"
      " given = pred[8,8] compare(i0, i1), direction=GE\n";
  EXPECT_EQ(state_after(loop_given("pred[8,8]", mask, "a = f32[8,8] select(given, x, x)")),
            "s32[] f32[8,8]");
}

TEST(SinkInvariants, SpreadConstantsAndArrays) {
  EXPECT_EQ(state_after(loop_given(
                "f32[8,8]", " c = f32[] constant(3)\n given = f32[8,8] broadcast(c), dimensions={}",
                "a = f32[8,8] multiply(given, x)")),
            "s32[] f32[8,8]");
  EXPECT_EQ(state_after(loop_given("f32[8,8]", " given = f32[8,8] broadcast(v), dimensions={1}",
                                   "a = f32[8,8] multiply(given, x)")),
            "s32[] f32[8,8] f32[8]");
}

// The gradient of a tanh in a loop that is given its result t and 1 - t.
TEST(SinkInvariants, WhatFollowsFromAnotherThatIsGiven) {
  const std::string state = "(s32[], f32[8,8], f32[8,8], f32[8,8])";
  EXPECT_EQ(state_after(
                "HloModule m\nmore {\n s = " + state +
                " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
                " ROOT more = pred[] compare(i, n), direction=LT\n}\nbody {\n s = " +
                state +
                " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
                " x = f32[8,8] get-tuple-element(s), index=1\n"
                " t = f32[8,8] get-tuple-element(s), index=2\n"
                " rest = f32[8,8] get-tuple-element(s), index=3\n one = s32[] constant(1)\n"
                " next = s32[] add(i, one)\n a = f32[8,8] multiply(x, rest)\n"
                " b = f32[8,8] multiply(a, t)\n y = f32[8,8] add(a, b)\n ROOT r = " +
                state +
                " tuple(next, y, t, rest)\n}\nENTRY e {\n x = f32[8,8] parameter(0)\n"
                " v = f32[8,8] parameter(1)\n t = f32[8,8] tanh(v)\n c = f32[] constant(1)\n"
                " ones = f32[8,8] broadcast(c), dimensions={}\n rest = f32[8,8] subtract(ones, t)\n"
                " start = s32[] constant(0)\n state = " +
                state + " tuple(start, x, t, rest)\n loop = " + state +
                " while(state), condition=more, body=body\n"
                " ROOT r = f32[8,8] get-tuple-element(loop), index=1\n}\n"),
            "s32[] f32[8,8] f32[8,8]");
}

TEST(SinkInvariants, LeavesWhatIsDearOrReadAsAWhole) {
  const std::string spread = " given = f32[8,8] broadcast(v), dimensions={1}";
  EXPECT_EQ(state_after(loop_given("f32[8,8]", spread,
                                   "a = f32[8,8] dot(given, x), lhs_contracting_dims={1}, "
                                   "rhs_contracting_dims={0}")),
            "s32[] f32[8,8] f32[8,8]");
  EXPECT_EQ(state_after(loop_given("f32[8,8]",
                                   " rows = s32[8,8] iota(), iota_dimension=0\n"
                                   " f = f32[8,8] convert(rows)\n e = f32[8,8] tanh(f)\n"
                                   " g = f32[8,8] tanh(e)\n given = f32[8,8] tanh(g)",
                                   "a = f32[8,8] multiply(given, x)")),
            "s32[] f32[8,8] f32[8,8]");
  EXPECT_EQ(state_after(loop_given("f32[8,8]", " given = f32[8,8] tanh(w)",
                                   "a = f32[8,8] multiply(given, x)")),
            "s32[] f32[8,8] f32[8,8]");
}

// Two loops add to what starts as the same zeros, and a third only reads them.
TEST(OwnStarts, AreMadeForEachLoopThatChangesThem) {
  const std::string state = "(s32[], f32[128,128])";
  std::string text =
      "HloModule m\nmore {\n s = " + state +
      " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(3)\n"
      " ROOT more = pred[] compare(i, n), direction=LT\n}\n";
  for (const bool adds : {true, false}) {
    text += std::string(adds ? "adds" : "reads") + " {\n s = " + state +
            " parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
            " x = f32[128,128] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
            " next = s32[] add(i, one)\n f = f32[] convert(next)\n"
            " spread = f32[128,128] broadcast(f), dimensions={}\n"
            " y = f32[128,128] add(x, spread)\n ROOT t = " +
            state + " tuple(next, " + (adds ? "y" : "x") + ")\n}\n";
  }
  text +=
      "ENTRY e {\n start = s32[] constant(0)\n zero = f32[] constant(0)\n"
      " zeros = f32[128,128] broadcast(zero), dimensions={}\n";
  for (const std::string name : {"a", "b", "c"}) {
    text += " from" + name + " = " + state + " tuple(start, zeros)\n loop" + name + " = " + state +
            " while(from" + name + "), condition=more, body=" + (name == "c" ? "reads" : "adds") +
            "\n " + name + " = f32[128,128] get-tuple-element(loop" + name + "), index=1\n";
  }
  text += " ab = f32[128,128] add(a, b)\n ROOT r = f32[128,128] add(ab, c)\n}\n";
  const auto before = parse(text), after = parse(text);
  ASSERT_NE(before, nullptr);
  const Result<bool> changed = own_starts(*after);
  ASSERT_TRUE(changed.ok());
  EXPECT_TRUE(*changed);
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
  const auto expected = ir::interpret(*before, {}), got = ir::interpret(*after, {});
  ASSERT_TRUE(expected.ok() && got.ok());
  EXPECT_EQ(cases::compare_bits(*expected, *got), "");
  std::vector<const ir::Instruction*> starts;
  for (const auto& instruction : after->entry()->instructions()) {
    if (instruction->opcode() == ir::Opcode::while_) {
      starts.push_back(instruction->operand(0)->operand(1));
    }
  }
  ASSERT_EQ(starts.size(), 3U);
  EXPECT_NE(starts[0], starts[1]);
  EXPECT_NE(starts[1], starts[2]);
  // A second time nothing is left to do.
  const Result<bool> again = own_starts(*after);
  EXPECT_TRUE(again.ok() && !*again) << ir::to_text(*after);
}

}  // namespace
}  // namespace plimsoll::passes
