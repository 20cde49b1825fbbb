// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/baselines/greedy.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/planner.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kKiB = 1024;

GreedyReport run(ir::Module& module, const GreedyOptions& options) {
  auto report = rematerialize_greedy(module, options);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  const Status valid = ir::verify(module);
  EXPECT_TRUE(valid.ok()) << valid.to_string() << "\n" << ir::to_text(module);
  return *report;
}

int count(const ir::Computation& computation, ir::Opcode opcode) {
  int n = 0;
  for (const auto& i : computation.instructions()) n += i->opcode() == opcode;
  return n;
}

// Bytes of the default planner's lowest plan by liveness, parameters left out as the greedy
// accounting does, must not be above what greedy reached.
void expect_default_is_not_above(const ir::Module& original, std::int64_t greedy_peak) {
  const RooflineCostModel cost_model;
  const auto floor = find_floor(original, cost_model, {});
  ASSERT_TRUE(floor.ok());
  PlanOptions options;
  options.limit_bytes = floor->bytes;
  const auto plan = make_plan(original, cost_model, options);
  ASSERT_TRUE(plan.ok());
  // Every buffer of ours is rounded up to 64 bytes; a few small ones are live at the peak.
  EXPECT_LE(plan->peak_bytes - plan->by_cause.parameters, greedy_peak + 6 * 64);
}

const char* const kBody = R"(
  reshape = f32[] reshape(p)
  bcast = f32[1024] broadcast(reshape), dimensions={}
  negate = f32[1024] negate(bcast)
  concat.1 = f32[2048] concatenate(negate, negate), dimensions={0}
  slice.1 = f32[1] slice(concat.1), slice={[0:1]}
  concat.2 = f32[1025] concatenate(bcast, slice.1), dimensions={0}
  ROOT slice.2 = f32[1] slice(concat.2), slice={[0:1]}
}
)";

std::unique_ptr<ir::Module> graph_r() {
  return parse(std::string("HloModule r, is_scheduled=true\nENTRY e {\n  p = f32[1] parameter(0)") +
               kBody);
}

TEST(Greedy, RecomputesABroadcastBeforeItsLateUse) {
  const auto module = graph_r();
  const auto original = graph_r();
  const GreedyReport report = run(*module, {.limit_bytes = 14 * kKiB});
  EXPECT_TRUE(report.changed);
  EXPECT_EQ(report.peak_before, 16'388);
  EXPECT_EQ(report.peak_after, 12'296);
  EXPECT_EQ(module->entry()->instruction_count(), 9);
  const ir::Instruction* last = module->entry()->find("concat.2");
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->operand(0)->name(), "bcast.remat");
  EXPECT_EQ(report.net_added, 1);
  expect_default_is_not_above(*original, report.peak_after);
}

TEST(Greedy, LeavesWhatFitsAlone) {
  const auto module = graph_r();
  const GreedyReport report = run(*module, {.limit_bytes = 20 * kKiB});
  EXPECT_FALSE(report.changed);
  EXPECT_EQ(module->entry()->instruction_count(), 8);
}

TEST(Greedy, LeavesSmallValuesAlone) {
  const auto module = graph_r();
  const GreedyReport report = run(*module, {.limit_bytes = 14 * kKiB, .min_bytes = 14 * kKiB});
  EXPECT_FALSE(report.changed);
  EXPECT_EQ(report.peak_after, 16'388);
}

std::unique_ptr<ir::Module> graph_w() {
  return parse(std::string("HloModule w, is_scheduled=true\nbody {\n  p = f32[1] parameter(0)") +
               kBody + R"(
cond {
  p = f32[1] parameter(0)
  ROOT c = pred[] constant(true)
}
ENTRY e {
  p = f32[1] parameter(0)
  r = f32[] reshape(p)
  b = f32[1024] broadcast(r), dimensions={}
  s = f32[1] slice(b), slice={[0:1]}
  w = f32[1] while(s), condition=cond, body=body
  c = f32[1025] concatenate(b, w), dimensions={0}
  ROOT t = f32[1] slice(c), slice={[0:1]}
})");
}

TEST(Greedy, FreesTheCallerBeforeTheLoopBody) {
  const auto module = graph_w();
  const auto original = graph_w();
  const GreedyReport report = run(*module, {.limit_bytes = 17 * kKiB});
  EXPECT_TRUE(report.changed);
  EXPECT_EQ(module->entry()->instruction_count(), 8);
  EXPECT_EQ(module->find("body")->instruction_count(), 8);
  EXPECT_LE(report.peak_after, 17 * kKiB);
  expect_default_is_not_above(*original, report.peak_after);
}

TEST(Greedy, AsksTheLoopBodyForWhatIsStillMissing) {
  const auto module = graph_w();
  const GreedyReport report = run(*module, {.limit_bytes = 15 * kKiB});
  EXPECT_EQ(count(*module->entry(), ir::Opcode::broadcast), 2);
  EXPECT_EQ(count(*module->find("body"), ir::Opcode::broadcast), 2);
  EXPECT_LE(report.peak_after, 15 * kKiB);
}

std::unique_ptr<ir::Module> graph_m() {
  return parse(R"(
HloModule m, is_scheduled=true
callee {
  p = f32[1024] parameter(0)
  c = f32[2048] concatenate(p, p), dimensions={0}
  ROOT s = f32[1024] slice(c), slice={[0:1024]}
}
ENTRY e {
  p = f32[] parameter(0)
  b = f32[1024] broadcast(p), dimensions={}
  add.1 = f32[1024] add(b, b)
  call.1 = f32[1024] call(add.1), to_apply=callee
  add.2 = f32[1024] add(b, call.1)
  call.2 = f32[1024] call(add.2), to_apply=callee
  add.3 = f32[1024] add(b, call.2)
  call.3 = f32[1024] call(add.3), to_apply=callee
  ROOT add.4 = f32[1024] add(b, call.3)
})");
}

TEST(Greedy, RecomputesAcrossEveryCall) {
  const auto module = graph_m();
  const auto original = graph_m();
  const GreedyReport report = run(*module, {.limit_bytes = 22 * kKiB});
  EXPECT_EQ(count(*module->entry(), ir::Opcode::broadcast), 4);
  EXPECT_EQ(module->entry()->instruction_count(), 12);
  expect_default_is_not_above(*original, report.peak_after);
}

std::unique_ptr<ir::Module> graph_rng() {
  return parse(R"(
HloModule g, is_scheduled=true
ENTRY e {
  p = f32[] parameter(0)
  rng = f32[1024] rng(p, p), distribution=rng_uniform
  exp = f32[1024] exponential(rng)
  add.0 = f32[1024] add(rng, exp)
  tanh = f32[1024] tanh(add.0)
  add.1 = f32[1024] add(rng, tanh)
  add.2 = f32[1024] add(exp, add.1)
  ROOT s = f32[1] slice(add.2), slice={[0:1]}
})");
}

TEST(Greedy, NeverRunsAStatefulRngTwice) {
  const auto module = graph_rng();
  const auto original = graph_rng();
  const GreedyReport report = run(*module, {.limit_bytes = 16 * kKiB});
  EXPECT_TRUE(report.changed);
  EXPECT_LE(report.peak_after, 16 * kKiB);
  EXPECT_EQ(count(*module->entry(), ir::Opcode::rng), 1);
  expect_default_is_not_above(*original, report.peak_after);
}

std::unique_ptr<ir::Module> graph_fusion() {
  return parse(R"(
HloModule f, is_scheduled=true
pair {
  p0 = f32[] parameter(0)
  p1 = f32[] parameter(1)
  x = f32[1024] broadcast(p0), dimensions={}
  y = f32[1024] broadcast(p1), dimensions={}
  add = f32[1024] add(x, y)
  mul = f32[1024] multiply(x, y)
  ROOT out = (f32[1024], f32[1024]) tuple(add, mul)
}
ENTRY e {
  p0 = f32[] parameter(0)
  p1 = f32[] parameter(1)
  fusion = (f32[1024], f32[1024]) fusion(p0, p1), kind=kLoop, calls=pair
  g1 = f32[1024] get-tuple-element(fusion), index=0
  a = f32[1024] add(g1, g1)
  b = f32[1024] broadcast(p0), dimensions={}
  m = f32[1024] multiply(a, b)
  g2 = f32[1024] get-tuple-element(fusion), index=1
  ROOT r = f32[1024] add(m, g2)
})");
}

TEST(Greedy, RecomputesOnlyTheFusionOutputThatIsReadLate) {
  const auto module = graph_fusion();
  const auto original = graph_fusion();
  const GreedyReport report = run(*module, {.limit_bytes = 11 * kKiB});
  EXPECT_TRUE(report.changed);
  EXPECT_EQ(count(*module->entry(), ir::Opcode::fusion), 2);
  const ir::Instruction* late = module->entry()->root()->operand(1);
  EXPECT_EQ(late->opcode(), ir::Opcode::fusion);
  EXPECT_TRUE(late->shape().is_array());
  EXPECT_LT(report.peak_after, report.peak_before);
  expect_default_is_not_above(*original, report.peak_after);
}

TEST(Greedy, KeepsControlDependenciesOnClones) {
  const auto module = parse(R"(
HloModule c, is_scheduled=true
ENTRY e {
  p = f32[] parameter(0)
  first = f32[] negate(p)
  b = f32[1024] broadcast(p), dimensions={}, control-predecessors={first}
  n = f32[1024] negate(b)
  c = f32[2048] concatenate(n, n), dimensions={0}
  s = f32[1024] slice(c), slice={[0:1024]}
  a = f32[1024] add(b, s)
  z = f32[1] slice(a), slice={[0:1]}
  ROOT t = (f32[1], f32[]) tuple(z, first)
})");
  run(*module, {.limit_bytes = 14 * kKiB});
  const ir::Instruction* clone = module->entry()->find("b.remat");
  ASSERT_NE(clone, nullptr);
  ASSERT_EQ(clone->control_predecessors().size(), 1u);
  EXPECT_EQ(clone->control_predecessors()[0]->name(), "first");
}

TEST(Greedy, RefusesWhatHasAPlacedControlSuccessor) {
  const auto module = parse(R"(
HloModule c, is_scheduled=true
ENTRY e {
  p = f32[] parameter(0)
  b = f32[1024] broadcast(p), dimensions={}
  n = f32[1024] negate(b), control-predecessors={b}
  c = f32[2048] concatenate(n, n), dimensions={0}
  s = f32[1024] slice(c), slice={[0:1024]}
  a = f32[1024] add(b, s)
  ROOT t = f32[1] slice(a), slice={[0:1]}
})");
  const GreedyReport report = run(*module, {.limit_bytes = 14 * kKiB});
  EXPECT_EQ(module->entry()->find("b.remat"), nullptr);
  EXPECT_FALSE(report.changed);
}

// `n` is large, and so is the `b` it is made from: computing only `n` again would keep `b` alive.
const char* const kPairs = R"(
HloModule pairs, is_scheduled=true
ENTRY e {
  p = f32[] parameter(0)
  b = f32[1024] broadcast(p), dimensions={}
  m = f32[1024] multiply(b, b)
  n = f32[1024] negate(m)
  early = f32[1] slice(n), slice={[0:1]}
  q = f32[] reshape(early)
  b2 = f32[1024] broadcast(q), dimensions={}
  m2 = f32[1024] multiply(b2, b2)
  c = f32[2048] concatenate(m2, m2), dimensions={0}
  middle = f32[1024] slice(c), slice={[0:1024]}
  late = f32[1024] add(n, middle)
  ROOT t = f32[1] slice(late), slice={[0:1]}
})";

TEST(Greedy, RecomputesABlockWhereOneInstructionAloneFreesNothing) {
  const auto single = parse(kPairs);
  const GreedyReport one = run(*single, {.limit_bytes = 13 * kKiB});
  EXPECT_FALSE(one.changed);
  const auto blocks = parse(kPairs);
  const GreedyReport several = run(*blocks, {.limit_bytes = 13 * kKiB, .block_size_limit = 4});
  EXPECT_TRUE(several.changed);
  EXPECT_LT(several.peak_after, one.peak_after);
  EXPECT_NE(blocks->entry()->find("m.remat"), nullptr);
  EXPECT_NE(blocks->entry()->find("n.remat"), nullptr);
  EXPECT_EQ(blocks->entry()->find("late")->operand(0)->name(), "n.remat");
}

TEST(Greedy, BlocksOfAnySizeKeepEveryBit) {
  cases::RandomModuleOptions shape;
  shape.instructions = 50;
  shape.largest_bytes = 4 << 10;
  int changed = 0;
  for (std::uint64_t seed = 500; seed < 530; ++seed) {
    auto module = cases::random_module(seed, shape);
    module->is_scheduled = true;
    const auto arguments = cases::random_arguments(*module, seed);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    for (const int size : {2, 4, 8}) {
      const auto copy = module->clone();
      const GreedyReport before = run(*copy, {.limit_bytes = kKiB << 20});
      const GreedyReport report =
          run(*copy, {.limit_bytes = before.peak_before / 2, .block_size_limit = size});
      changed += report.changed;
      const auto actual = ir::interpret(*copy, arguments);
      ASSERT_TRUE(actual.ok()) << actual.status().to_string();
      EXPECT_EQ(cases::compare_bits(*expected, *actual), "") << "seed " << seed << " size " << size;
    }
  }
  EXPECT_GT(changed, 30);
}

}  // namespace
}  // namespace plimsoll::planner
