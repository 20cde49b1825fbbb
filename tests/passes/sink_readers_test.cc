// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_scan.h"
#include "tests/cases/replace_all.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

// The gradients of eight layers by a loop that reads the weights backwards, and lines of the entry
// that read them, `g`, beside weights `w` and momentum `m`.
std::string step(const std::string& lines, const std::string& aliases, const std::string& result) {
  return "HloModule m" + aliases + R"(
largest {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
more {
  s = (s32[], f32[64,64], f32[8,64,64], f32[8,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT more = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[64,64], f32[8,64,64], f32[8,64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  d = f32[64,64] get-tuple-element(s), index=1
  w = f32[8,64,64] get-tuple-element(s), index=2
  grads = f32[8,64,64] get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  last = s32[] constant(7)
  next = s32[] add(i, one)
  at = s32[] subtract(last, i)
  row = f32[1,64,64] dynamic-slice(w, at, zero, zero), dynamic_slice_sizes={1,64,64}
  wi = f32[64,64] reshape(row)
  p = f32[64,64] dot(d, wi), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d2 = f32[64,64] tanh(p)
  gi = f32[1,64,64] reshape(d2)
  more_grads = f32[8,64,64] dynamic-update-slice(grads, gi, at, zero, zero)
  ROOT t = (s32[], f32[64,64], f32[8,64,64], f32[8,64,64]) tuple(next, d2, w, more_grads)
}
ENTRY e {
  w = f32[8,64,64] parameter(0)
  m = f32[8,64,64] parameter(1)
  d = f32[64,64] parameter(2)
  rate = f32[] parameter(3)
  start = s32[] constant(0)
  nothing = f32[] constant(0)
  empty = f32[8,64,64] broadcast(nothing), dimensions={}
  state = (s32[], f32[64,64], f32[8,64,64], f32[8,64,64]) tuple(start, d, w, empty)
  loop = (s32[], f32[64,64], f32[8,64,64], f32[8,64,64]) while(state), condition=more, body=body
  g = f32[8,64,64] get-tuple-element(loop), index=3
)" + lines +
         "  ROOT r = " + result + "\n}\n";
}

constexpr char kMomentum[] = R"(  decay = f32[] constant(0.9)
  decays = f32[8,64,64] broadcast(decay), dimensions={}
  kept = f32[8,64,64] multiply(m, decays)
  m2 = f32[8,64,64] add(kept, g)
  rates = f32[8,64,64] broadcast(rate), dimensions={}
  way = f32[8,64,64] multiply(m2, rates)
  w2 = f32[8,64,64] subtract(w, way)
)";
constexpr char kDonated[] =
    ", input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }";
constexpr char kBoth[] = "(f32[8,64,64], f32[8,64,64]) tuple(w2, m2)";

// How many stacks the loop holds afterwards; the results are the same bits.
int stacks_after(const std::string& text) {
  const auto before = parse(text), after = parse(text);
  if (before == nullptr) return -1;
  const Result<bool> changed = sink_readers(*after);
  EXPECT_TRUE(changed.ok());
  EXPECT_TRUE(ir::verify(*after).ok()) << ir::to_text(*after);
  const auto arguments = cases::random_arguments(*before, 5);
  const auto expected = ir::interpret(*before, arguments), got = ir::interpret(*after, arguments);
  EXPECT_TRUE(expected.ok() && got.ok());
  if (expected.ok() && got.ok()) {
    EXPECT_EQ(cases::compare_bits(*expected, *got), "");
  }
  for (const auto& instruction : after->entry()->instructions()) {
    if (instruction->opcode() != ir::Opcode::while_) continue;
    int stacks = 0;
    for (const ir::Shape* leaf : ir::leaves(instruction->shape())) stacks += leaf->rank() == 3;
    EXPECT_TRUE(*changed);
    return stacks;
  }
  return -1;
}

// Weights that the loop reads, and what is stacked for each way to read it.
TEST(SinkReaders, StepOfAnOptimizerIsTakenLayerByLayer) {
  EXPECT_EQ(stacks_after(step(kMomentum, kDonated, kBoth)), 2);  // w and m instead of w and g
}

TEST(SinkReaders, WhatIsNotDonatedIsNotCopiedForIt) {
  const auto before = parse(step(kMomentum, "", kBoth));
  const auto changed = sink_readers(*before);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

// The weights' place is the momentum's, and the other way round.
TEST(SinkReaders, ResultsAreWrittenWhereTheCallerWantsThem) {
  EXPECT_EQ(stacks_after(step(kMomentum,
                              ", input_output_alias={ {1}: (0, {}, may-alias), "
                              "{0}: (1, {}, may-alias) }",
                              kBoth)),
            2);
}

// Gradients that are the result, in the place of weights that are given away for them.
TEST(SinkReaders, StacksAreWrittenOverWhatTheLoopHasRead) {
  constexpr char kOne[] = ", input_output_alias={ {0}: (0, {}, may-alias) }";
  EXPECT_EQ(stacks_after(step("", kOne, "(f32[8,64,64]) tuple(g)")), 1);
  // Read behind the loop as well.
  EXPECT_EQ(stacks_after(step("  low = f32[] constant(0)\n  all = f32[] reduce(g, low), "
                              "dimensions={0,1,2}, to_apply=largest\n",
                              kOne, "(f32[8,64,64], f32[]) tuple(g, all)")),
            1);
  // The weights are wanted once more.
  const auto module = parse(step("  more = f32[8,64,64] add(g, w)\n", kOne,
                                 "(f32[8,64,64], f32[8,64,64]) tuple(g, more)"));
  const auto changed = sink_readers(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

// Each of these keeps the gradients of all layers.
TEST(SinkReaders, WhatNeedsAllOfAStackStaysBehindTheLoop) {
  const std::string clipped = cases::replace_all(kMomentum, "add(kept, g)", "add(kept, clipped)");
  const std::string norm =
      "  low = f32[] constant(0)\n  all = f32[] reduce(g, low), dimensions={0,1,2}, "
      "to_apply=largest\n  alls = f32[8,64,64] broadcast(all), dimensions={}\n"
      "  clipped = f32[8,64,64] divide(g, alls)\n";
  const std::string turned = "  clipped = f32[8,64,64] reverse(g), dimensions={0}\n";
  const std::string given = "(f32[8,64,64], f32[8,64,64], f32[8,64,64]) tuple(w2, m2, g)";
  for (const std::string& text :
       {step(norm + clipped, kDonated, kBoth), step(turned + clipped, kDonated, kBoth),
        step(kMomentum, kDonated, given)}) {
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const auto changed = sink_readers(*module);
    ASSERT_TRUE(changed.ok());
    EXPECT_FALSE(*changed) << text;
  }
}

// Their place is not free while the loop runs, and new weights beside them take as much as
// gradients.
TEST(SinkReaders, WeightsReadLaterAreNotOverwritten) {
  const std::string again =
      "  old = f32[8,64,64] reverse(w), dimensions={0}\n"
      "  gap = f32[8,64,64] add(old, w2)\n";
  const auto module = parse(step(kMomentum + again, kDonated,
                                 "(f32[8,64,64], f32[8,64,64], f32[8,64,64]) tuple(w2, m2, gap)"));
  const auto changed = sink_readers(*module);
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(*changed);
}

TEST(SinkReaders, KeepsTheBitsOfRandomScans) {
  int sunk = 0;
  constexpr std::uint64_t kPrograms = 40;
  for (std::uint64_t seed = 3; seed < 7 * kPrograms; seed += 7) {  // those of thick slices
    const auto module = parse(cases::random_scan(seed));
    ASSERT_NE(module, nullptr);
    const auto arguments = cases::random_arguments(*module, seed);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const auto changed = sink_readers(*module);
    ASSERT_TRUE(changed.ok());
    ASSERT_TRUE(ir::verify(*module).ok()) << ir::to_text(*module);
    if (!*changed) continue;
    ++sunk;
    const auto got = ir::interpret(*module, arguments);
    ASSERT_TRUE(got.ok()) << got.status().to_string();
    EXPECT_EQ(cases::compare_bits(*expected, *got), "") << "seed " << seed;
  }
  EXPECT_GT(sunk, 5);
}

}  // namespace
}  // namespace plimsoll::passes
