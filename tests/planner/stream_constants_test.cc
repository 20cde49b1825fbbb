// SPDX-License-Identifier: Apache-2.0
// Constants that come when they are needed: how little memory does, what is uploaded for which
// limit, and what the proof of a plan says to it.
#include "runtime/planner/remedies/stream_constants.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/plan_summary.h"
#include "runtime/planner/residency.h"
#include "tests/planner/parsed.h"

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kRow = 64, kActivation = 4 * kRow * 4, kWeights = kRow * kRow * 4;

// x, four rows of 64, through `layers` products with weights of 64 x 64; with `tied`, the first
// weights are read again by one more product at the end.
std::string layers_text(int layers, bool tied = false) {
  std::string text = "HloModule layers\nENTRY e {\n  h0 = f32[4,64] parameter(0)\n";
  const auto product = [&](const std::string& name, const std::string& x, const std::string& w) {
    text += "  " + name + " = f32[4,64] dot(" + x + ", " + w +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  };
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    text += "  w" + n + " = f32[64,64] constant({...})\n";
    product("p" + n, "h" + n, "w" + n);
    text += "  h" + std::to_string(i + 1) + " = f32[4,64] tanh(p" + n + ")\n";
  }
  std::string last = "h" + std::to_string(layers);
  if (tied) product("again", last, "w0");
  text += "  ROOT r = f32[4,64] negate(" + (tied ? "again" : last) + ")\n}\n";
  return text;
}

const RooflineCostModel kStreamCosts;

std::unique_ptr<ModulePlanner> stream_planner(const ir::Module& module,
                                              const PlanOptions& options = {}) {
  auto made = ModulePlanner::create(module, kStreamCosts, options);
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return std::move(made).value();
}

std::int64_t resident_weights(const Plan& plan) {
  std::int64_t count = 0;
  for (const Buffer& b : plan.buffers) count += b.placement == Placement::constant && !b.host;
  return count;
}

TEST(StreamConstants, TakeOneLayersBytesAtTheFloor) {
  for (const int layers : {4, 12}) {
    const auto module = parse(layers_text(layers));
    const auto planner = stream_planner(*module);
    const Floor floor = planner->floor();
    // Parameter, result, and at a layer its weights with what it reads and makes.
    EXPECT_LE(floor.bytes, kWeights + 4 * kActivation) << layers;
    EXPECT_LE(floor.lower_bound_bytes, floor.bytes);
    EXPECT_GE(floor.lower_bound_bytes, kWeights);
    const auto plan = planner->plan(floor.bytes);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_EQ(plan->counts.upload, layers);
    EXPECT_EQ(plan->by_cause.constants, 0);
    EXPECT_EQ(plan->counts.recompute, 0);
    EXPECT_TRUE(check_plan(*module, *plan).ok());
    EXPECT_GE(plan->predicted_seconds, plan->lower_bound_seconds);
    EXPECT_GT(plan->predicted_seconds, plan->unlimited_seconds);
    EXPECT_FALSE(planner->plan(floor.bytes - 1).ok());
  }
}

// Of n layers, one comes and goes with each that does not fit: as few uploads as the limit allows.
TEST(StreamConstants, AsManyStayAsTheLimitHasBytesFor) {
  constexpr int kLayers = 12;
  const auto module = parse(layers_text(kLayers));
  const auto planner = stream_planner(*module);
  const Floor floor = planner->floor();
  const auto unlimited = planner->plan(kUnlimited);
  ASSERT_TRUE(unlimited.ok());
  EXPECT_EQ(unlimited->counts.upload, 0);
  EXPECT_EQ(resident_weights(*unlimited), kLayers);
  for (int stay = 0; stay < kLayers; ++stay) {
    const std::int64_t limit = floor.bytes + stay * kWeights;
    const auto plan = planner->plan(limit);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_TRUE(check_plan(*module, *plan).ok());
    EXPECT_EQ(plan->counts.upload + resident_weights(*plan), kLayers) << stay;
    EXPECT_EQ(plan->by_cause.constants, resident_weights(*plan) * kWeights);
    // Targets are not made for this one limit: two layers may be streamed in vain.
    EXPECT_LE(plan->counts.upload, kLayers - stay + 2) << stay;
    EXPECT_LE(plan->peak_bytes, limit);
  }
}

// Weights that are read at both ends come twice, where they may not stay between.
TEST(StreamConstants, ComeAgainWhereTheyCantStay) {
  const auto module = parse(layers_text(6, true));
  const auto planner = stream_planner(*module);
  const Floor floor = planner->floor();
  EXPECT_LE(floor.bytes, kWeights + 4 * kActivation);
  const auto plan = planner->plan(floor.bytes);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->counts.upload, 7);
  EXPECT_EQ(plan->recomputed_bytes, 0);
  EXPECT_TRUE(check_plan(*module, *plan).ok());
  const auto roomy = planner->plan(floor.bytes + 2 * kWeights);
  ASSERT_TRUE(roomy.ok());
  EXPECT_LE(roomy->counts.upload, 6);
}

// Weights that are arguments in host memory are uploaded one layer's at a time, like constants, and
// those of both ends twice where they may not stay between.
TEST(StreamConstants, AreAsArgumentsInHostMemoryAre) {
  std::string text = layers_text(6, true);
  for (int i = 0; i < 6; ++i) {
    const std::string constant = "constant({...})";
    text.replace(text.find(constant), constant.size(), "parameter(" + std::to_string(i + 1) + ")");
  }
  text.insert(text.find('\n'), ", host_parameters={1,2,3,4,5,6}");
  const auto module = parse(text);
  const auto question = default_question(*module);
  ASSERT_TRUE(question.ok()) << question.status().to_string();
  const auto planner = stream_planner(*module, {{}, {}, *question});
  const Floor floor = planner->floor();
  EXPECT_LE(floor.bytes, kWeights + 4 * kActivation);
  const auto plan = planner->plan(floor.bytes);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(plan->counts.upload, 7);
  EXPECT_EQ(plan->by_cause.parameters, kActivation);
  EXPECT_EQ(bytes_in_host_memory(*plan).parameters, 6 * kWeights);
  // At the price of the link to host memory.
  PlanOptions slow = {{}, {}, *question};
  slow.host.in_bytes_per_second = 1e6;
  const auto slower = stream_planner(*module, slow)->plan(floor.bytes);
  ASSERT_TRUE(slower.ok());
  EXPECT_GE(slower->predicted_seconds, 7 * kWeights / 1e6);
  EXPECT_LT(plan->predicted_seconds, 7 * kWeights / 1e6);
  EXPECT_TRUE(check_plan(*module, *plan).ok());
}

TEST(StreamConstants, StayWhereSwappingIsNotAllowedAndInCallees) {
  const auto module = parse(layers_text(6));
  PlanOptions options;
  options.remedies.swap = false;
  EXPECT_GT(stream_planner(*module, options)->floor().bytes, 6 * kWeights);
  options = {};
  options.without.add(Technique::constants);
  EXPECT_GT(stream_planner(*module, options)->floor().bytes, 6 * kWeights);
  options = {};
  options.min_bytes = 2 * kWeights;
  EXPECT_GT(stream_planner(*module, options)->floor().bytes, 6 * kWeights);

  const auto caller = parse(R"(
HloModule caller
layer {
  x = f32[4,64] parameter(0)
  w = f32[64,64] constant({...})
  ROOT y = f32[4,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
ENTRY e {
  x = f32[4,64] parameter(0)
  a = f32[4,64] call(x), to_apply=layer
  v = f32[64,64] constant({...})
  b = f32[4,64] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = f32[64,64] constant({...})
  d = f32[4,64] dot(b, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[4,64] call(d), to_apply=layer
})");
  const auto planner = stream_planner(*caller);
  const Floor floor = planner->floor();
  EXPECT_GE(floor.bytes, 2 * kWeights);
  EXPECT_LT(floor.bytes, 3 * kWeights);
  const auto plan = planner->plan(floor.bytes);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(check_plan(*caller, *plan).ok());
  EXPECT_EQ(plan->by_cause.constants, kWeights);
}

TEST(StreamConstants, AProofKnowsWhichConstantsAreOnTheDevice) {
  const auto module = parse(layers_text(4));
  const auto planner = stream_planner(*module);
  const auto made = planner->plan(planner->floor().bytes);
  ASSERT_TRUE(made.ok());
  Plan plan = *made;
  plan.by_cause.constants += kWeights;
  EXPECT_FALSE(check_plan(*module, plan).ok());
  // One that is read as if it were on the device.
  plan = *made;
  for (Buffer& b : plan.buffers) {
    if (b.placement == Placement::constant) b.host = false;
  }
  EXPECT_FALSE(check_plan(*module, plan).ok());
  // A product right from host memory.
  plan = *made;
  for (Step& step : plan.steps) {
    if (step.kind != StepKind::compute || step.inputs.size() != 2) continue;
    for (const BufferId id : plan.buffers.ids()) {
      if (plan.buffers[id].host) step.inputs[1] = id;
    }
  }
  EXPECT_FALSE(check_plan(*module, plan).ok());
}

// The first plan that fits is there, too, where the constants do not all fit.
TEST(StreamConstants, FirstPlansStream) {
  const auto module = parse(layers_text(8));
  PlanOptions options;
  options.effort = Effort::first;
  const auto planner = stream_planner(*module, options);
  const std::int64_t limit = 4 * kWeights;
  const auto plan = planner->plan(limit);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_LE(plan->peak_bytes, limit);
  EXPECT_GT(plan->counts.upload, 0);
  EXPECT_LT(plan->counts.upload, 8);
  EXPECT_TRUE(check_plan(*module, *plan).ok());
}

}  // namespace
}  // namespace plimsoll::planner
