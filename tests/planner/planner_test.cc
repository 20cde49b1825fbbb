// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/planner.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

Result<Plan> checked_plan(const ir::Module& module, const PlanOptions& options = {}) {
  Result<Plan> plan = make_plan(module, RooflineCostModel(), options);
  if (plan.ok()) {
    const Status proof = check_plan(module, *plan);
    if (!proof.ok()) return proof;
  }
  return plan;
}

TEST(Planner, CountsParametersConstantsOutputsAndTemporaries) {
  const auto module = parse(R"(
HloModule m
ENTRY e {
  p = f32[100] parameter(0)
  c = f32[100] constant({...})
  a = f32[100] add(p, c)
  b = f32[100] multiply(a, p)
  ROOT r = f32[10] slice(b), slice={[0:10]}
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->by_cause.parameters, 448);
  EXPECT_EQ(plan->by_cause.constants, 448);
  EXPECT_EQ(plan->by_cause.outputs, 64);
  // b is computed in place of a.
  EXPECT_EQ(plan->arena_bytes, 448);
  EXPECT_EQ(plan->peak_bytes, 448 * 3 + 64);
}

TEST(Planner, ViewsHaveNoBytes) {
  const auto module = parse(R"(
HloModule m
ENTRY e {
  p = f32[100] parameter(0)
  a = f32[100] negate(p)
  v = f32[10,10] reshape(a)
  t = (f32[10,10], f32[100]) tuple(v, a)
  g = f32[10,10] get-tuple-element(t), index=0
  ROOT r = f32[10,10] transpose(g), dimensions={1,0}
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->steps.size(), 2u);
  EXPECT_EQ(plan->arena_bytes, 448);
}

TEST(Planner, WhatAResultTakesThePlaceOfIsMadeThere) {
  const auto module = parse(R"(
HloModule m
ENTRY e {
  p = f32[100] parameter(0)
  a = f32[100] negate(p)
  b = f32[100] tanh(a)
  c = f32[100] exponential(b)
  d = f32[100] negate(c)
  e = f32[100] cosine(c)
  ROOT r = (f32[100], f32[100]) tuple(d, e)
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  // c is read twice, and made where the result is that comes last, as all that it takes the place
  // of.
  EXPECT_EQ(plan->arena_bytes, 0);
  const auto chain = parse(R"(
HloModule m
ENTRY e {
  p = f32[100] parameter(0)
  a = f32[100] negate(p)
  b = f32[100] tanh(a)
  ROOT c = f32[100] exponential(b)
})");
  const auto in_place = checked_plan(*chain);
  ASSERT_TRUE(in_place.ok()) << in_place.status().to_string();
  EXPECT_EQ(in_place->arena_bytes, 0);
  EXPECT_EQ(in_place->peak_bytes, 448 * 2);
  // Of what is two results, each side is made in the place of one of them.
  const auto twice = parse(R"(
HloModule m
ENTRY e {
  p = f32[100] parameter(0)
  a = f32[100] negate(p)
  b = f32[100] tanh(p)
  c = f32[100] add(a, b)
  t = (f32[100], f32[100]) tuple(c, c)
  u = (f32[100], f32[100]) opt-barrier(t)
  x = f32[100] get-tuple-element(u), index=0
  y = f32[100] get-tuple-element(u), index=1
  ROOT r = (f32[100], f32[100]) tuple(x, y)
})");
  const auto both = checked_plan(*twice);
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  EXPECT_EQ(both->arena_bytes, 0);
  EXPECT_EQ(both->peak_bytes, 448 * 3);
}

TEST(Planner, CopiesResultsThatAreNotComputed) {
  const auto module = parse(R"(
HloModule m
ENTRY e {
  p = f32[16] parameter(0)
  c = f32[] constant(1)
  a = f32[16] negate(p)
  ROOT r = (f32[16], f32[], f32[16], f32[16]) tuple(p, c, a, a)
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->steps.size(), 4u);
  EXPECT_EQ(plan->arena_bytes, 0);
}

TEST(Planner, DonatedParameterTakesItsUpdateInPlace) {
  const auto module = parse(R"(
HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  w = f32[1024] parameter(0)
  x = f32[1024] parameter(1)
  n = f32[1024] subtract(w, x)
  y = f32[1024] multiply(w, x)
  s = f32[1024] exponential(y)
  ROOT r = (f32[1024], f32[1024]) tuple(n, s)
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->buffers[plan->results[0]].placement, Placement::parameter);
  EXPECT_EQ(plan->steps.size(), 3u);
  EXPECT_EQ(plan->by_cause.outputs, 4096);
}

TEST(Planner, LoopStateStaysInItsBuffers) {
  const auto module = parse(R"(
HloModule m
body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[1024] exponential(x)
  ROOT t = (s32[], f32[1024]) tuple(j, y)
}
cond {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  p = f32[1024] parameter(0)
  zero = s32[] constant(0)
  x = f32[1024] negate(p)
  init = (s32[], f32[1024]) tuple(zero, x)
  w = (s32[], f32[1024]) while(init), condition=cond, body=body
  y = f32[1024] get-tuple-element(w), index=1
  ROOT r = f32[1024] negate(y)
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ASSERT_EQ(plan->steps.size(), 3u);
  const Step& loop = plan->steps[StepId(1)];
  ASSERT_EQ(loop.callees.size(), 2u);
  EXPECT_EQ(loop.inputs[1], loop.outputs[1]);
  const Plan& body = *loop.callees[1];
  EXPECT_EQ(body.buffers[body.results[1]].placement, Placement::parameter);
  EXPECT_EQ(body.arena_bytes, 0);
}

TEST(Planner, CheckRefusesWritesToReadOnlyParameters) {
  const auto module = parse(R"(
HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  w = f32[1024] parameter(0)
  x = f32[1024] parameter(1)
  n = f32[1024] subtract(w, x)
  ROOT r = (f32[1024]) tuple(n)
})");
  auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  for (Buffer& buffer : plan->buffers) buffer.donated = false;
  const Status proof = check_plan(*module, *plan);
  ASSERT_EQ(proof.code(), StatusCode::internal);
  EXPECT_NE(proof.message().find("read-only parameter"), std::string::npos) << proof.message();
}

TEST(Planner, OperandsOfAnAsynchronousStartLiveUntilItsDone) {
  const auto module = parse(R"(
HloModule m
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  p = f32[1024] parameter(0)
  x = f32[1024] exponential(p)
  s = f32[1024] all-reduce-start(x), replica_groups={}, to_apply=sum
  y = f32[1024] negate(p)
  z = f32[1024] exponential(y)
  d = f32[1024] all-reduce-done(s)
  ROOT r = f32[1024] add(d, z)
})");
  module->is_scheduled = true;
  auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ASSERT_EQ(plan->steps.size(), 6u);
  const BufferId operand = plan->steps[StepId(1)].inputs[0];
  EXPECT_EQ(plan->steps[StepId(1)].kind, StepKind::collective_start);
  EXPECT_EQ(plan->buffers[operand].last_step, StepId(4));
  EXPECT_EQ(plan->arena_bytes, 3 * 4096);  // x, s and y with z in its place; d is where r goes
  // One step less is one too few.
  plan->buffers[operand].last_step = StepId(3);
  const Status proof = check_plan(*module, *plan);
  ASSERT_EQ(proof.code(), StatusCode::internal);
  EXPECT_NE(proof.message().find("does not live until its done"), std::string::npos)
      << proof.message();
}

TEST(Planner, SwappedLoopStateGoesThroughTheArena) {
  const auto module = parse(R"(
HloModule m
body {
  s = (f32[64], f32[64]) parameter(0)
  a = f32[64] get-tuple-element(s), index=0
  b = f32[64] get-tuple-element(s), index=1
  n = f32[64] negate(a)
  ROOT t = (f32[64], f32[64]) tuple(b, n)
}
cond {
  s = (f32[64], f32[64]) parameter(0)
  ROOT c = pred[] constant(false)
}
ENTRY e {
  p = f32[64] parameter(0)
  init = (f32[64], f32[64]) tuple(p, p)
  ROOT w = (f32[64], f32[64]) while(init), condition=cond, body=body
})");
  const auto plan = checked_plan(*module);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
}

}  // namespace
}  // namespace plimsoll::planner
