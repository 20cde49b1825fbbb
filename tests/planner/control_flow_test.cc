// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/ir/dataflow/views.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/cost/trip_count.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/problem/arrange.h"
#include "runtime/planner/problem/callee_bytes.h"
#include "runtime/planner/problem/extract.h"
#include "runtime/planner/problem/schedule.h"
#include "runtime/planner/remedies/remedies.h"
#include "runtime/planner/remedies/remedies_find.h"
#include "runtime/planner/residency.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

const RooflineCostModel kCostModel;

const Step* step_of(const Plan& plan, std::string_view name) {
  for (const Step& step : plan.steps) {
    if (step.instruction != nullptr && step.instruction->name() == name) return &step;
  }
  return nullptr;
}

Plan plan_of(const ir::Module& module, std::int64_t limit = kUnlimited) {
  PlanOptions options;
  options.limit_bytes = limit;
  Result<Plan> plan = make_plan(module, kCostModel, options);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  if (!plan.ok()) return {};
  const Status status = check_plan(module, *plan);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return *plan;
}

// A loop over (counter, x, w) that leaves w alone, ROUNDS times; w is read again behind it.
std::string loop_text(int rounds) {
  return R"(
HloModule loop
condition {
  s = (s32[], f32[1024], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant()" +
         std::to_string(rounds) + R"()
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[1024], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024] get-tuple-element(s), index=1
  w = f32[4096] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  part = f32[1024] slice(w), slice={[0:1024]}
  y = f32[1024] multiply(x, part)
  ROOT t = (s32[], f32[1024], f32[4096]) tuple(next, y, w)
}
ENTRY main {
  x = f32[1024] parameter(0)
  p = f32[4096] parameter(1)
  w = f32[4096] sine(p)
  zero = s32[] constant(0)
  start = (s32[], f32[1024], f32[4096]) tuple(zero, x, w)
  loop = (s32[], f32[1024], f32[4096]) while(start), condition=condition, body=body
  y = f32[1024] get-tuple-element(loop), index=1
  same = f32[4096] get-tuple-element(loop), index=2
  squared = f32[4096] multiply(same, w)
  ROOT t = (f32[1024], f32[4096]) tuple(y, squared)
}
)";
}

TEST(ControlFlow, AStateThatALoopDoesNotChangeIsNotCopied) {
  const auto module = parse(loop_text(5));
  const ir::Instruction* loop = module->entry()->find("loop");
  EXPECT_FALSE(passes_through(*loop, 0));
  EXPECT_FALSE(passes_through(*loop, 1));
  EXPECT_TRUE(passes_through(*loop, 2));
  const Plan plan = plan_of(*module);
  const Step* step = step_of(plan, "loop");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->outputs[2], step->inputs[2]);
  EXPECT_NE(step->outputs[1], step->inputs[1]);
  // One copy of w, the counter, and what the body needs beside its state.
  EXPECT_LE(plan.arena_bytes, 4096 * 4 + 2 * 4096 + 2 * 64);
}

TEST(ControlFlow, AStateThatALoopDoesNotChangeMayBeAReadOnlyParameter) {
  std::string text = loop_text(5);
  text.replace(text.find("w = f32[4096] sine(p)"), 21, "");
  for (const std::string from : {"tuple(zero, x, w)", "multiply(same, w)"}) {
    const std::size_t at = text.find(from);
    text[at + from.size() - 2] = 'p';
  }
  const auto module = parse(text);
  const Plan plan = plan_of(*module);
  EXPECT_LE(plan.arena_bytes, 2 * 4096 + 2 * 64);
}

TEST(ControlFlow, AStateThatOnlyAnInnerLoopLeavesAloneIsNotCopiedEither) {
  const auto module = parse(R"(
HloModule nested
inner_condition {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(i, n), direction=LT
}
inner_body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[1024] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[1024]) tuple(next, w)
}
condition {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[1024] get-tuple-element(s), index=1
  zero = s32[] constant(0)
  start = (s32[], f32[1024]) tuple(zero, w)
  inner = (s32[], f32[1024]) while(start), condition=inner_condition, body=inner_body
  j = s32[] get-tuple-element(inner), index=0
  one = s32[] constant(1)
  more = s32[] subtract(j, one)
  next = s32[] subtract(more, one)
  sum = s32[] add(i, next)
  still = f32[1024] get-tuple-element(inner), index=1
  ROOT t = (s32[], f32[1024]) tuple(sum, still)
}
ENTRY main {
  w = f32[1024] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[1024]) tuple(zero, w)
  loop = (s32[], f32[1024]) while(start), condition=condition, body=body
  i = s32[] get-tuple-element(loop), index=0
  same = f32[1024] get-tuple-element(loop), index=1
  twice = f32[1024] add(same, same)
  ROOT t = (s32[], f32[1024]) tuple(i, twice)
}
)");
  EXPECT_TRUE(passes_through(*module->entry()->find("loop"), 1));
  EXPECT_LE(plan_of(*module).arena_bytes, 8 * 64);
}

// A state that two branches of a conditional update and hand on, in a loop.
std::string branches_text(const std::string& handed_on) {
  return R"(
HloModule branches
condition {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(100)
  ROOT less = pred[] compare(i, n), direction=LT
}
updated {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,64] get-tuple-element(s), index=1
  one = f32[] constant(1)
  row = f32[1,64] broadcast(one), dimensions={}
  zero = s32[] constant(0)
  ROOT y = f32[64,64] dynamic-update-slice(x, row, i, zero)
}
kept {
  x = f32[64,64] parameter(0)
  ROOT y = f32[64,64] )" +
         handed_on + R"(
}
body {
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,64] get-tuple-element(s), index=1
  t = (s32[], f32[64,64]) tuple(i, x)
  k = s32[] constant(50)
  early = pred[] compare(i, k), direction=LT
  chosen = f32[64,64] conditional(early, t, x), true_computation=updated, false_computation=kept
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[64,64]) tuple(next, chosen)
}
ENTRY main {
  x = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[64,64]) tuple(zero, x)
  loop = (s32[], f32[64,64]) while(start), condition=condition, body=body
  ROOT y = f32[64,64] get-tuple-element(loop), index=1
}
)";
}

TEST(ControlFlow, WhatABranchHandsOnOrUpdatesStaysWhereItIs) {
  const auto module = parse(branches_text("bitcast(x)"));
  const Plan plan = plan_of(*module);
  const Step* loop = step_of(plan, "loop");
  ASSERT_NE(loop, nullptr);
  const Plan& body = *loop->callees[1];
  const Step* step = step_of(body, "chosen");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->outputs[0], step->inputs[2]);
  EXPECT_EQ(step->outputs[0], step->inputs[3]);
  EXPECT_EQ(step->callees[0]->state_leaf(0), 1);
  EXPECT_EQ(step->callees[1]->state_leaf(0), 0);
  for (const auto& branch : step->callees) {
    for (const Step& inner : branch->steps) EXPECT_NE(inner.kind, StepKind::copy);
  }
  // No second array, in the body or in a branch.
  EXPECT_LT(body.arena_bytes, 64 * 64 * 4);
}

// One of the two must copy then, and the one that writes elsewhere needs the room while it does.
TEST(ControlFlow, WhatABranchComputesElsewhereIsCopiedToWhereTheStateIs) {
  const auto module = parse(branches_text("reverse(x), dimensions={0}"));
  const Plan plan = plan_of(*module);
  const Step* loop = step_of(plan, "loop");
  ASSERT_NE(loop, nullptr);
  const Step* step = step_of(*loop->callees[1], "chosen");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->outputs[0], step->inputs[2]);
  EXPECT_EQ(step->callees[1]->state_leaf(0), 0);
  EXPECT_GE(step->callees[1]->arena_bytes, 64 * 64 * 4);
}

// Thirty levels of two loops each that run the same body: two to the thirtieth ways to the bottom.
TEST(ControlFlow, LoopsThatShareBodiesAreLookedAtInBoundedTime) {
  std::string text = R"(
HloModule shared
condition {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(2)
  ROOT less = pred[] compare(i, n), direction=LT
}
body0 {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  w = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT t = (s32[], f32[64]) tuple(next, w)
}
)";
  constexpr int kLevels = 30;
  for (int level = 1; level <= kLevels; ++level) {
    const std::string below = "body" + std::to_string(level - 1);
    text += "body" + std::to_string(level) +
            " {\n  s = (s32[], f32[64]) parameter(0)\n"
            "  first = (s32[], f32[64]) while(s), condition=condition, body=" +
            below +
            "\n  ROOT second = (s32[], f32[64]) while(first), condition=condition, body=" + below +
            "\n}\n";
  }
  text +=
      "ENTRY main {\n  s = (s32[], f32[64]) parameter(0)\n"
      "  ROOT loop = (s32[], f32[64]) while(s), condition=condition, body=body" +
      std::to_string(kLevels) + "\n}\n";
  const auto module = parse(text);
  EXPECT_FALSE(passes_through(*module->entry()->find("loop"), 1));
  EXPECT_TRUE(make_plan(*module, kCostModel, {}).ok());
}

TEST(ControlFlow, LoopsAreChargedForEveryRound) {
  const double three = plan_of(*parse(loop_text(3))).predicted_seconds;
  const double five = plan_of(*parse(loop_text(5))).predicted_seconds;
  const double nine = plan_of(*parse(loop_text(9))).predicted_seconds;
  EXPECT_GT(five, three);
  EXPECT_NEAR(nine - five, 2 * (five - three), 1e-9);
}

TEST(ControlFlow, InnerLoopsAreChargedForTheOuterRounds) {
  const std::string text = R"(
HloModule nested
inner_condition {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT less = pred[] compare(i, n), direction=LT
}
inner_body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[1024] sine(x)
  ROOT t = (s32[], f32[1024]) tuple(next, y)
}
condition {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024] get-tuple-element(s), index=1
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  start = (s32[], f32[1024]) tuple(zero, x)
  inner = (s32[], f32[1024]) while(start), condition=inner_condition, body=inner_body
  y = f32[1024] get-tuple-element(inner), index=1
  ROOT t = (s32[], f32[1024]) tuple(next, y)
}
ENTRY main {
  x = f32[1024] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[1024]) tuple(zero, x)
  ROOT loop = (s32[], f32[1024]) while(start), condition=condition, body=body
}
)";
  const auto module = parse(text);
  const ir::Instruction* loop = module->entry()->find("loop");
  EXPECT_EQ(trip_count(*loop), 20);
  const ir::Computation& body = *loop->while_body();
  const ir::Instruction* inner = body.find("inner");
  if (inner == nullptr) {
    for (const auto& i : body.instructions()) {
      if (i->opcode() == ir::Opcode::while_) inner = i.get();
    }
  }
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(trip_count(*inner), 10);
  double sine = 0;
  for (const auto& i : inner->while_body()->instructions()) {
    if (i->opcode() == ir::Opcode::sine) sine = kCostModel.seconds(*i);
  }
  EXPECT_GT(plan_of(*module).predicted_seconds, 200 * sine);
}

// A value that the loop does not read but that is wanted on both sides of it.
TEST(ControlFlow, WhatLivesAcrossALoopCanGiveWay) {
  std::string text = loop_text(4);
  const auto replace = [&](const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace("w = f32[4096] sine(p)",
          "seed = f32[] parameter(2)\n"
          "  big = f32[65536] broadcast(seed), dimensions={}\n"
          "  part = f32[4096] slice(big), slice={[0:4096]}\n"
          "  w = f32[4096] add(p, part)");
  replace("squared = f32[4096] multiply(same, w)",
          "spread = f32[65536] broadcast(last), dimensions={}\n"
          "  squared = f32[65536] multiply(spread, big)");
  replace("same = f32[4096] get-tuple-element(loop), index=2",
          "first = f32[1] slice(y), slice={[0:1]}\n"
          "  last = f32[] reshape(first)");
  replace("ROOT t = (f32[1024], f32[4096])", "ROOT t = (f32[1024], f32[65536])");
  const auto module = parse(text);
  const Plan kept = plan_of(*module);
  const Floor floor = *find_floor(*module, kCostModel, {});
  EXPECT_LT(floor.bytes, kept.peak_bytes);
  const Plan least = plan_of(*module, floor.bytes);
  const Step* loop = step_of(least, "loop");
  ASSERT_NE(loop, nullptr);
  const StepId at(loop - &least.steps.front());
  for (const Buffer& b : least.buffers) {
    const bool across = b.placement == Placement::arena && b.first_step < at && at < b.last_step;
    EXPECT_FALSE(across && b.bytes > 100'000) << b.source->name();
  }
}

// Two loops in a row over x, each with a fast and large and a slow and small variant, and a value
// of 64 KiB that lives across the second.
struct TwoLoops {
  std::unique_ptr<ir::Module> module;
  Graph graph;
  Problem problem;
  Schedule schedule;
  std::vector<OpId> loops;

  TwoLoops() {
    std::string text = loop_text(3);
    text.erase(text.find("  same ="));
    text +=
        "  big = f32[16384] broadcast(seed), dimensions={}\n"
        "  first = f32[1024] slice(big), slice={[0:1024]}\n"
        "  x2 = f32[1024] add(first, y)\n"
        "  start2 = (s32[], f32[1024], f32[4096]) tuple(zero, x2, w)\n"
        "  loop2 = (s32[], f32[1024], f32[4096]) while(start2), condition=condition, "
        "body=body\n"
        "  y2 = f32[1024] get-tuple-element(loop2), index=1\n"
        "  tail = f32[1024] slice(big), slice={[1024:2048]}\n"
        "  ROOT sum = f32[1024] add(y2, tail)\n}\n";
    text.insert(text.find("w = f32[4096] sine"), "seed = f32[] parameter(2)\n  ");
    module = parse(text);
    graph = extract(*module->entry(), Role::entry, default_residency(*module), kCostModel);
    std::vector<OpId> order;
    for (const OpId op : graph.ops.ids()) {
      order.push_back(op);
      Op& what = graph.ops[op];
      if (what.instruction->opcode() != ir::Opcode::while_) continue;
      loops.push_back(op);
      what.variants = static_cast<std::int32_t>(graph.variants.size());
      graph.variants.push_back({{100'032, 1.0, {}}, {10'048, 2.0, {}}, {1'024, 3.0, {}}});
    }
    problem = arrange(graph, order, false);
    schedule = order;
  }
  std::vector<int> chosen() const {
    std::vector<int> choices;
    for (const OpId op : loops) choices.push_back(problem.variant[op]);
    return choices;
  }
};

TEST(ControlFlow, CalleesTakeTheBytesThatAScheduleLeaves) {
  TwoLoops two;
  ASSERT_EQ(two.loops.size(), 2u);
  std::vector<std::int64_t> profile;
  evaluate(two.problem, two.schedule, &profile);
  choose_callees(two.problem, profile, 150'000, {false, 0});
  EXPECT_EQ(two.chosen(), (std::vector{2, 2}));
  // The first loop has room for its fastest plan; beside the value that lives across the second
  // there is none.
  EXPECT_TRUE(use_available_bytes(two.problem, two.schedule, 150'000));
  EXPECT_EQ(two.chosen(), (std::vector{0, 1}));
  EXPECT_LE(evaluate(two.problem, two.schedule).arena_peak, 150'000);
  EXPECT_FALSE(use_available_bytes(two.problem, two.schedule, 150'000));
}

TEST(ControlFlow, CalleesAreGivenWhatIsLeftBesideAllThatLivesAcross) {
  TwoLoops two;
  ASSERT_EQ(two.loops.size(), 2u);
  std::vector<std::int64_t> profile;
  evaluate(two.problem, two.schedule, &profile);
  choose_callees(two.problem, profile, 150'000, {true, 1});
  EXPECT_EQ(two.chosen(), (std::vector{0, 1}));
  choose_callees(two.problem, profile, 150'000, {false, 1});
  EXPECT_EQ(two.chosen(), (std::vector{0, 0}));
}

// A scan and its gradient: a residual of stacked slices that one loop writes and another reads,
// with a larger need in between.
const char* const kScan = R"(
HloModule scan
condition {
  s = (s32[], f32[16384], f32[8,16384]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(8)
  ROOT less = pred[] compare(i, n), direction=LT
}
forward {
  s = (s32[], f32[16384], f32[8,16384]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[16384] get-tuple-element(s), index=1
  stack = f32[8,16384] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  y = f32[16384] tanh(x)
  row = f32[1,16384] reshape(y)
  more = f32[8,16384] dynamic-update-slice(stack, row, i, zero)
  ROOT t = (s32[], f32[16384], f32[8,16384]) tuple(next, y, more)
}
backward {
  s = (s32[], f32[16384], f32[8,16384]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  g = f32[16384] get-tuple-element(s), index=1
  stack = f32[8,16384] get-tuple-element(s), index=2
  one = s32[] constant(1)
  zero = s32[] constant(0)
  last = s32[] constant(7)
  next = s32[] add(i, one)
  at = s32[] subtract(last, i)
  row = f32[1,16384] dynamic-slice(stack, at, zero), dynamic_slice_sizes={1,16384}
  y = f32[16384] reshape(row)
  d = f32[16384] multiply(g, y)
  ROOT t = (s32[], f32[16384], f32[8,16384]) tuple(next, d, stack)
}
ENTRY main {
  x = f32[16384] parameter(0)
  w = f32[16384,16] parameter(1)
  i = s32[] constant(0)
  nothing = f32[] constant(0)
  empty = f32[8,16384] broadcast(nothing), dimensions={}
  start = (s32[], f32[16384], f32[8,16384]) tuple(i, x, empty)
  loop = (s32[], f32[16384], f32[8,16384]) while(start), condition=condition, body=forward
  y = f32[16384] get-tuple-element(loop), index=1
  stack = f32[8,16384] get-tuple-element(loop), index=2
  column = f32[16384,16] broadcast(y), dimensions={0}
  wide = f32[16384,16] add(column, w)
  sine = f32[16384,16] sine(wide)
  product = f32[16,16] dot(sine, wide), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  first = f32[1,1] slice(product), slice={[0:1],[0:1]}
  seed = f32[] reshape(first)
  g = f32[16384] broadcast(seed), dimensions={}
  start2 = (s32[], f32[16384], f32[8,16384]) tuple(i, g, stack)
  loop2 = (s32[], f32[16384], f32[8,16384]) while(start2), condition=condition, body=backward
  ROOT d = f32[16384] get-tuple-element(loop2), index=1
}
)";

TEST(ControlFlow, AResidualBetweenTwoLoopsIsOneBufferThatBothUseInPlace) {
  const auto module = parse(kScan);
  const Plan plan = plan_of(*module);
  const Step* forward = step_of(plan, "loop");
  const Step* backward = step_of(plan, "loop2");
  ASSERT_TRUE(forward != nullptr && backward != nullptr);
  EXPECT_EQ(forward->inputs[2], forward->outputs[2]);
  EXPECT_EQ(forward->outputs[2], backward->inputs[2]);
  EXPECT_EQ(backward->inputs[2], backward->outputs[2]);
}

TEST(ControlFlow, AResidualBetweenTwoLoopsMovesToTheHostAsAWhole) {
  const auto module = parse(kScan);
  PlanOptions options;
  options.host.bytes = 1 << 30;
  const auto whole = [](const Problem& problem, std::span<const Form> forms) {
    std::vector<Choice> choices;
    for (const Form& form : forms) {
      const Value& value = problem.values[form.value];
      if (form.kind != RemedyKind::swap_host || value.source->name() != "loop" || value.leaf != 2) {
        continue;
      }
      choices.push_back(choose_form(problem, form, problem.uses[form.value].back()));
    }
    return choices;
  };
  const Result<Plan> plan = plan_with_choices(*module, kCostModel, options, whole);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const Status status = check_plan(*module, *plan);
  EXPECT_TRUE(status.ok()) << status.to_string();
  const auto moved = std::any_of(plan->steps.begin(), plan->steps.end(), [](const Step& step) {
    return step.kind == StepKind::swap_out && step.instruction->name() == "loop" && step.leaf == 2;
  });
  EXPECT_TRUE(moved);
}

// A loop may pass on what is on its way to the host: it writes nothing there.
TEST(ControlFlow, ALoopReadsWhatIsOnItsWayToTheHost) {
  const auto module = parse(R"(HloModule m, is_scheduled=true
below { s = (s32[], f32[4096], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
next { s = (s32[], f32[4096], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[4096] get-tuple-element(s), index=1
  y = f32[4096] get-tuple-element(s), index=2
  z = f32[4096] add(x, y)
  ROOT t = (s32[], f32[4096], f32[4096]) tuple(j, z, y) }
ENTRY e { p = f32[4096] parameter(0)
  y = f32[4096] exponential(p)
  i = s32[] constant(0)
  start = (s32[], f32[4096], f32[4096]) tuple(i, p, y)
  loop = (s32[], f32[4096], f32[4096]) while(start), condition=below, body=next
  x = f32[4096] get-tuple-element(loop), index=1
  a = f32[4096] tanh(x)
  b = f32[4096] tanh(a)
  ROOT r = f32[4096] add(b, y) })");
  PlanOptions options;
  options.host.bytes = 1 << 30;
  const auto early = [](const Problem& problem, std::span<const Form> forms) {
    std::vector<Choice> choices;
    for (const Form& form : forms) {
      const Value& value = problem.values[form.value];
      if (form.kind != RemedyKind::swap_host || value.source->name() != "y") continue;
      const auto uses = problem.uses[form.value];
      choices.push_back(choose_form(problem, form, uses.back()));
      choices.back().leave = value.producer + 1;  // before the loop, that reads it too
    }
    return choices;
  };
  Result<Plan> plan = plan_with_choices(*module, kCostModel, options, early);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const Step* loop = step_of(*plan, "loop");
  const Step* out = nullptr;
  for (const Step& step : plan->steps) {
    if (step.kind == StepKind::swap_out) out = &step;
  }
  ASSERT_TRUE(loop != nullptr && out != nullptr);
  ASSERT_LT(out, loop);
  EXPECT_EQ(out->inputs[0], loop->inputs[2]);
  EXPECT_EQ(loop->outputs[2], loop->inputs[2]);
  const Status status = check_plan(*module, *plan);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

}  // namespace
}  // namespace plimsoll::planner
