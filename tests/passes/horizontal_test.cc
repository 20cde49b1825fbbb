// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/ir/fusions/horizontal_fusion.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/passes/fusion/live_bytes.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/passes/expression.h"

namespace plimsoll::passes {
namespace {

const char* const kSumOfLaunches =
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y) }\n";

std::string horizontal(const std::string& lines) { return entry_after(fuse_horizontal, lines); }

// The number of parts of each launch of several, in the order of the computation.
std::vector<std::size_t> launches(const ir::Computation& computation) {
  std::vector<std::size_t> sizes;
  for (const auto& instruction : computation.instructions()) {
    const auto parts = ir::horizontal_parts(*instruction);
    if (!parts.empty()) sizes.push_back(parts.size());
  }
  return sizes;
}

std::vector<std::size_t> launches_after(const std::string& text) {
  const auto module = parse(text);
  EXPECT_TRUE(fuse_horizontal(*module).ok());
  const Status valid = ir::verify(*module);
  EXPECT_TRUE(valid.ok()) << valid.message();
  return launches(*module->entry());
}

using Sizes = std::vector<std::size_t>;

TEST(FuseHorizontal, LaunchesTwoKernelsOfDifferentShapesAsOne) {
  EXPECT_EQ(horizontal("a = f16[1024] parameter(0)\n b = f16[1024] parameter(1)\n"
                       "c = f16[123] parameter(2)\n d = f16[123] parameter(3)\n"
                       "x = f16[1024] multiply(a, b)\n y = f16[123] add(c, d)\n"
                       "ROOT r = (f16[1024], f16[123]) tuple(x, y)"),
            "tuple(fusion{tuple(fusion{multiply(p0, p1)}(p0, p1), fusion{add(p0, p1)}(p2, p3))}"
            "(p0, p1, p2, p3)#0, "
            "fusion{tuple(fusion{multiply(p0, p1)}(p0, p1), fusion{add(p0, p1)}(p2, p3))}"
            "(p0, p1, p2, p3)#1)");
}

TEST(FuseHorizontal, TakesFusionsOfAnyRankWithSeveralOutputs) {
  EXPECT_EQ(
      launches_after("HloModule m\n"
                     "f { a = f32[4,5] parameter(0)\n b = f32[4,5] parameter(1)\n"
                     "  s = f32[4,5] add(a, b)\n t = f32[4,5] tanh(s)\n"
                     "  ROOT r = (f32[4,5], f32[4,5]) tuple(s, t) }\n"
                     "ENTRY e { a = f32[4,5] parameter(0)\n b = f32[4,5] parameter(1)\n"
                     "  c = f32[] parameter(2)\n d = f32[2,3,7] parameter(3)\n"
                     "  x = (f32[4,5], f32[4,5]) fusion(a, b), kind=kLoop, calls=f\n"
                     "  s = f32[4,5] get-tuple-element(x), index=0\n"
                     "  t = f32[4,5] get-tuple-element(x), index=1\n"
                     "  y = f32[] negate(c)\n z = f32[2,3,7] exponential(d)\n"
                     "  ROOT r = (f32[4,5], f32[4,5], f32[], f32[2,3,7]) tuple(t, s, y, z) }\n"),
      Sizes{3});
}

TEST(FuseHorizontal, FindsNothingMoreInASecondRun) {
  const auto module = parse(
      "HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[20] parameter(1)\n"
      "x = f32[10] negate(a)\n y = f32[20] negate(b)\n"
      "ROOT r = (f32[10], f32[20]) tuple(x, y) }");
  EXPECT_TRUE(*fuse_horizontal(*module));
  EXPECT_FALSE(*fuse_horizontal(*module));
}

TEST(FuseHorizontal, NeverLaunchesAKernelWithWhatItDependsOn) {
  const std::string chain =
      "HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[10,10] parameter(1)\n"
      "x = f32[10] negate(a)\n"
      "d = f32[10] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "y = f32[10] exponential(d)\n ROOT r = (f32[10], f32[10]) tuple(x, y) }";
  EXPECT_EQ(launches_after(chain), Sizes{});
  // Two such chains beside each other: level by level.
  EXPECT_EQ(launches_after(
                "HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[10,10] parameter(1)\n"
                "a2 = f32[12] parameter(2)\n b2 = f32[12,12] parameter(3)\n"
                "x = f32[10] negate(a)\n"
                "d = f32[10] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                "y = f32[10] exponential(d)\n x2 = f32[12] negate(a2)\n"
                "d2 = f32[12] dot(x2, b2), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                "y2 = f32[12] exponential(d2)\n"
                "l = f32[12,12] dot(b2, b2), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                "m = f32[12,12] dot(l, b2), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                "ROOT r = (f32[10], f32[12], f32[10], f32[12], f32[12,12]) "
                "tuple(x, x2, y, y2, m) }"),
            (Sizes{2, 2}));
}

// Each kernel's result is needed before the other's operand is made, so that one launch would wait
// for itself.
TEST(FuseHorizontal, MakesNoCycleOfKernelsThatDoNotReadEachOther) {
  EXPECT_EQ(launches_after(
                "HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[10,10] parameter(1)\n"
                "x = f32[10] negate(a)\n"
                "d = f32[10] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
                "c = f32[20] concatenate(d, a), dimensions={0}\n"
                "i = f32[20,2] broadcast(c), dimensions={0}\n"
                "s = (f32[20,2], f32[20,2]) sort(i, i), dimensions={0}, to_apply=less\n"
                "k = f32[20,2] get-tuple-element(s), index=0\n"
                "y = f32[20,2] exponential(k)\n"
                "ROOT r = (f32[10], f32[20,2]) tuple(x, y) }\n"
                "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n"
                "d = f32[] parameter(3)\n ROOT r = pred[] compare(a, b), direction=LT }"),
            Sizes{});
}

// Not all results meet in one consumer, and one of them is read before the other kernel's turn.
TEST(FuseHorizontal, PutsOffWhatReadsAResultUntilAllPartsHaveRun) {
  const auto module = parse(
      "HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[10,10] parameter(1)\n"
      "c = f32[12] parameter(2)\n w = f32[12,12] parameter(3)\n"
      "x = f32[10] negate(a)\n"
      "u = f32[10] dot(x, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "v = f32[12] dot(c, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "y = f32[12] exponential(v)\n"
      "z = f32[12] dot(y, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "l = f32[12,12] dot(w, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "m = f32[12,12] dot(l, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "ROOT r = (f32[10], f32[12], f32[12,12]) tuple(u, z, m) }");
  EXPECT_TRUE(*fuse_horizontal(*module));
  EXPECT_TRUE(ir::verify(*module).ok());
  EXPECT_EQ(launches(*module->entry()), Sizes{2});
}

TEST(FuseHorizontal, KeepsDtypesApart) {
  EXPECT_EQ(
      launches_after("HloModule m\nENTRY e { a = f16[10] parameter(0)\n b = s32[20] parameter(1)\n"
                     "x = f16[10] negate(a)\n y = s32[20] negate(b)\n"
                     "ROOT r = (f16[10], s32[20]) tuple(x, y) }"),
      Sizes{});
  EXPECT_EQ(
      launches_after("HloModule m\nENTRY e { a = f16[10] parameter(0)\n b = s32[20] parameter(1)\n"
                     "c = f16[11] parameter(2)\n d = s32[2,3] parameter(3)\n"
                     "x = f16[10] negate(a)\n y = s32[20] negate(b)\n z = f16[11] abs(c)\n"
                     "w = s32[2,3] abs(d)\n"
                     "ROOT r = (f16[10], s32[20], f16[11], s32[2,3]) tuple(x, y, z, w) }"),
      (Sizes{2, 2}));
}

TEST(FuseHorizontal, LeavesWhatHasControlEdges) {
  EXPECT_EQ(
      launches_after("HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[20] parameter(1)\n"
                     "x = f32[10] negate(a)\n y = f32[20] abs(b), control-predecessors={x}\n"
                     "ROOT r = (f32[10], f32[20]) tuple(x, y) }"),
      Sizes{});
}

TEST(FuseHorizontal, GoesAroundControlEdgesOfOthers) {
  // The custom call runs after x and before y, which so must stay apart.
  EXPECT_EQ(
      launches_after("HloModule m\nENTRY e { a = f32[10] parameter(0)\n b = f32[20] parameter(1)\n"
                     "x = f32[10] negate(a)\n c = f32[20] copy(b)\n"
                     "k = f32[20] custom-call(x), custom_call_target=\"t\", "
                     "custom_call_has_side_effect=true\n"
                     "s = f32[20] subtract(k, c)\n y = f32[20] abs(s)\n"
                     "ROOT r = (f32[10], f32[20]) tuple(x, y) }"),
      Sizes{2});  // the negation and the copy
}

TEST(FuseHorizontal, LeavesEffectsCountersUpdatesAndLargeKernels) {
  for (const char* lines :
       {"a = u64[2] parameter(0)\n l = f32[] parameter(1)\n h = f32[] parameter(2)\n"
        "x = f32[10] rng(l, h), distribution=rng_uniform\n"
        "y = f32[20] rng(l, h), distribution=rng_uniform\n"
        "ROOT r = (f32[10], f32[20]) tuple(x, y)",
        "a = s32[] parameter(0)\n b = s32[] parameter(1)\n x = s32[] negate(a)\n"
        "y = s32[] abs(b)\n ROOT r = (s32[], s32[]) tuple(x, y)",
        "a = f32[8] parameter(0)\n b = f32[9] parameter(1)\n u = f32[1] parameter(2)\n"
        "i = s32[] parameter(3)\n x = f32[8] dynamic-update-slice(a, u, i)\n"
        "y = f32[9] dynamic-update-slice(b, u, i)\n ROOT r = (f32[8], f32[9]) tuple(x, y)",
        "a = f32[1024,512] parameter(0)\n b = f32[512,1024] parameter(1)\n"
        "x = f32[1024,512] negate(a)\n y = f32[512,1024] negate(b)\n"
        "ROOT r = (f32[1024,512], f32[512,1024]) tuple(x, y)"}) {
    EXPECT_EQ(launches_after(std::string("HloModule m\nENTRY e { ") + lines + " }"), Sizes{})
        << lines;
  }
}

TEST(FuseHorizontal, TakesReductionsTogetherAndLoopsTogether) {
  EXPECT_EQ(launches_after(std::string("HloModule m\n") + kSumOfLaunches +
                           "ENTRY e { a = f32[10,64] parameter(0)\n b = f32[7,33] parameter(1)\n"
                           "z = f32[] constant(0)\n c = f32[5] parameter(2)\n"
                           "x = f32[10] reduce(a, z), dimensions={1}, to_apply=sum\n"
                           "l = f32[5] negate(c)\n"
                           "y = f32[33] reduce(b, z), dimensions={0}, to_apply=sum\n"
                           "k = f32[7,33] negate(b)\n"
                           "ROOT r = (f32[10], f32[33], f32[5], f32[7,33]) tuple(x, y, l, k) }"),
            (Sizes{2, 2}));
}

TEST(FuseHorizontal, FusesFillsAfterVerticalFusion) {
  const auto module = parse(
      "HloModule m\nENTRY e { z = f32[] constant(0)\n a = f32[10] broadcast(z), dimensions={}\n"
      "b = f32[3,4] broadcast(z), dimensions={}\n c = f32[5,5] broadcast(z), dimensions={}\n"
      "ROOT r = (f32[10], f32[3,4], f32[5,5]) tuple(a, b, c) }");
  ASSERT_TRUE(optimize(*module).ok());
  EXPECT_TRUE(*fuse_horizontal(*module));
  EXPECT_EQ(launches(*module->entry()), Sizes{3});
}

TEST(FuseHorizontal, WorksInLoopBodies) {
  const auto module = parse(
      "HloModule m\n"
      "body { s = (s32[], f32[10], f32[4,4]) parameter(0)\n"
      "i = s32[] get-tuple-element(s), index=0\n a = f32[10] get-tuple-element(s), index=1\n"
      "b = f32[4,4] get-tuple-element(s), index=2\n one = s32[] constant(1)\n"
      "j = s32[] add(i, one)\n x = f32[10] tanh(a)\n y = f32[4,4] tanh(b)\n"
      "ROOT r = (s32[], f32[10], f32[4,4]) tuple(j, x, y) }\n"
      "cond { s = (s32[], f32[10], f32[4,4]) parameter(0)\n"
      "i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n"
      "ROOT r = pred[] compare(i, n), direction=LT }\n"
      "ENTRY e { a = f32[10] parameter(0)\n b = f32[4,4] parameter(1)\n z = s32[] constant(0)\n"
      "s = (s32[], f32[10], f32[4,4]) tuple(z, a, b)\n"
      "ROOT w = (s32[], f32[10], f32[4,4]) while(s), condition=cond, body=body }");
  EXPECT_TRUE(*fuse_horizontal(*module));
  EXPECT_EQ(launches(*module->find("body")), Sizes{2});
}

// One launch of everything, however many there are.
TEST(FuseHorizontal, PutsNoLimitOnTheNumberOfParts) {
  std::string lines, root_shape, root;
  constexpr int kParts = 1000;
  for (int i = 0; i < kParts; ++i) {
    const std::string n = std::to_string(i), shape = "f32[" + std::to_string(1 + i % 37) + "]";
    lines += "p" + n + " = " + shape + " parameter(" + n + ")\n x" + n + " = " + shape + " tanh(p" +
             n + ")\n";
    root_shape += (i > 0 ? ", " : "") + shape;
    root += (i > 0 ? ", x" : "x") + n;
  }
  EXPECT_EQ(launches_after("HloModule m\nENTRY e {\n" + lines + "ROOT r = (" + root_shape +
                           ") tuple(" + root + ") }"),
            Sizes{kParts});
}

// A chain of blocks that each make a large value, use it up and leave a small one: kernels of all
// blocks at once would need all the large ones.
std::string blocks(int count, int elements) {
  const std::string big = "f32[" + std::to_string(elements) + "]";
  const std::string wide = "f32[" + std::to_string(elements) + ",4]";
  std::string lines = "w = " + wide + " parameter(0)\n z = f32[] constant(0)\n", root, shapes;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    lines += "v" + n + " = f32[4] parameter(" + std::to_string(i + 1) + ")\n g" + n + " = " + big +
             " dot(w, v" + n + "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n u" + n +
             " = f32[] reduce(g" + n + ", z), dimensions={0}, to_apply=sum\n";
    root += (i > 0 ? ", u" : "u") + n;
    shapes += i > 0 ? ", f32[]" : "f32[]";
  }
  return "HloModule m\n" + std::string(kSumOfLaunches) + "ENTRY e {\n" + lines + "ROOT r = (" +
         shapes + ") tuple(" + root + ") }";
}

std::int64_t schedule_peak(const ir::Computation& computation) {
  LiveBytes bytes(computation);
  std::int64_t peak = 0;
  for (int i = 0; i < computation.instruction_count(); ++i) {
    const int one[] = {i};
    peak = std::max(peak, bytes.run(one));
  }
  return peak;
}

TEST(FuseHorizontal, StopsWhereThePeakWouldRise) {
  const auto module = parse(blocks(8, 1000));
  const std::int64_t before = schedule_peak(*module->entry());
  EXPECT_FALSE(*fuse_horizontal(*module));
  EXPECT_EQ(schedule_peak(*module->entry()), before);
}

TEST(FuseHorizontal, FusesInGroupsAsFarAsThePeakAllows) {
  // The same with a value of three blocks' size at the end, and an instruction as hungry.
  std::string text = blocks(8, 1000);
  text.replace(text.find("ROOT r = ("), 0,
               "q = f32[2,1500] parameter(9)\n m = f32[2,2] parameter(10)\n"
               "h = f32[2,1500] dot(m, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
               "o = f32[2,2] dot(h, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
               "oo = f32[2,2] dot(o, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n");
  text.replace(text.find(") tuple("), 8, ", f32[2,2]) tuple(oo, ");
  text.replace(text.find("ROOT r = (f32[]"), 15, "ROOT r = (f32[2,2], f32[]");
  text.replace(text.find("f32[], f32[2,2]) tuple"), 22, "f32[]) tuple");
  const auto module = parse(text);
  ASSERT_NE(module, nullptr);
  const std::int64_t before = schedule_peak(*module->entry());
  EXPECT_TRUE(*fuse_horizontal(*module));
  EXPECT_LE(schedule_peak(*module->entry()), before);
  EXPECT_EQ(launches(*module->entry()), (Sizes{3, 3, 2}));
}

TEST(FuseHorizontal, NeverRaisesThePeakOfRandomSchedules) {
  int fused = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto module = cases::random_module(seed);
    ASSERT_TRUE(fuse(*module).ok());
    ASSERT_TRUE(fuse_multi_output(*module).ok());
    std::vector<std::int64_t> before;
    for (const auto& computation : module->computations()) {
      before.push_back(schedule_peak(*computation));
    }
    const auto after = module->clone();
    if (*fuse_horizontal(*after)) ++fused;
    for (std::size_t i = 0; i < module->computations().size(); ++i) {
      const ir::Computation* same = after->find(module->computations()[i]->name());
      if (same == nullptr) continue;
      EXPECT_LE(schedule_peak(*same), before[i]) << "seed " << seed;
    }
  }
  EXPECT_GT(fused, 50);
}

TEST(FuseHorizontal, KeepsTheBitsOfRandomModules) {
  cases::RandomModuleOptions small;
  small.smallest_bytes = 64;
  small.largest_bytes = 4 << 10;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto module = cases::random_module(seed, small);
    if (seed % 2 == 1) {
      ASSERT_TRUE(fuse(*module).ok());
    }
    const auto arguments = cases::random_arguments(*module, seed);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    ASSERT_TRUE(fuse_horizontal(*module).ok());
    const Status valid = ir::verify(*module);
    ASSERT_TRUE(valid.ok()) << "seed " << seed << ": " << valid.message();
    const auto actual = ir::interpret(*module, arguments);
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    EXPECT_EQ(cases::compare_bits(*expected, *actual), "") << "seed " << seed;
  }
}

TEST(LiveBytes, CountsWhatTheScheduleHoldsAndNoViewsOrUpdatesInPlace) {
  const auto module = parse(
      "HloModule m\nENTRY e { p = f32[1024] parameter(0)\n a = f32[1024] negate(p)\n"
      "v = f32[32,32] reshape(a)\n b = f32[32,32] tanh(v)\n"
      "c = f32[32,32] transpose(b), dimensions={1,0}\n ROOT d = f32[32,32] negate(c) }");
  LiveBytes bytes(*module->entry());
  std::vector<std::int64_t> during, after;
  for (int i = 0; i < 6; ++i) {
    const int one[] = {i};
    during.push_back(bytes.run(one));
    after.push_back(bytes.live());
  }
  // The result lies with the caller.
  EXPECT_EQ(during, (std::vector<std::int64_t>{0, 4096, 4096, 4096, 8192, 4096}));
  EXPECT_EQ(after, (std::vector<std::int64_t>{0, 4096, 4096, 4096, 4096, 0}));
}

TEST(LiveBytes, TakesBackWhatWasTried) {
  const auto module = parse(
      "HloModule m\nENTRY e { p = f32[1024] parameter(0)\n a = f32[1024] negate(p)\n"
      "b = f32[1024] tanh(a)\n c = f32[1024] tanh(a)\n"
      "ROOT d = f32[1024] add(b, c) }");
  LiveBytes bytes(*module->entry());
  const int first[] = {1}, both[] = {2, 3};
  bytes.run(first);
  const LiveBytes::Mark mark = bytes.mark();
  const std::int64_t once = bytes.run(both);
  EXPECT_EQ(once, 3 * 4096);
  EXPECT_EQ(bytes.live(), 2 * 4096);
  bytes.undo(mark);
  EXPECT_EQ(bytes.live(), 4096);
  EXPECT_EQ(bytes.run(both), once);
}

}  // namespace
}  // namespace plimsoll::passes
