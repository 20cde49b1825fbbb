// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/shapes/verifier.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cost_model.h"
#include "runtime/planner/ladder/module_planner.h"
#include "runtime/planner/plan_cache.h"
#include "tests/cases/random_module.h"
#include "tests/planner/graphs.h"
#include "tests/planner/parsed.h"
#include "tools/plan/remat_pass.h"

namespace plimsoll::planner {
namespace {

// A cost model with workspaces, so that those are planned for too.
class WorkspaceModel : public RooflineCostModel {
 public:
  std::int64_t workspace_bytes(const ir::Instruction& instruction) const override {
    return instruction.opcode() == ir::Opcode::dot ? instruction.shape().byte_size() / 2 : 0;
  }
};

// At about twenty limits from the floor to the peak: a proven plan at or under the limit, never
// slower than at a smaller limit, and nothing below the floor.
void check_all_limits(const ir::Module& module, PlanOptions options, const std::string& name) {
  SCOPED_TRACE(name);
  const WorkspaceModel cost_model;
  auto planner = ModulePlanner::create(module, cost_model, options);
  ASSERT_TRUE(planner.ok()) << planner.status().to_string();
  const auto unlimited = (*planner)->plan(kUnlimited);
  ASSERT_TRUE(unlimited.ok());
  const Status proof = check_plan(module, *unlimited);
  ASSERT_TRUE(proof.ok()) << proof.to_string();
  const Floor floor = (*planner)->floor();
  ASSERT_LE(floor.bytes, unlimited->peak_bytes);
  const auto below = (*planner)->plan(floor.bytes - 1);
  ASSERT_FALSE(below.ok());
  ASSERT_EQ(below.status().code(), StatusCode::resource_exhausted);
  ASSERT_NE(below.status().shortage(), nullptr);
  EXPECT_EQ(below.status().shortage()->floor_bytes, floor.bytes);
  double slower = 1e300;
  for (int i = 0; i <= 20; ++i) {
    const std::int64_t limit = floor.bytes + (unlimited->peak_bytes - floor.bytes) * i / 20;
    const auto plan = (*planner)->plan(limit);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_LE(plan->peak_bytes, limit);
    EXPECT_LE(plan->predicted_seconds, slower);
    slower = plan->predicted_seconds;
    const Status ok = check_plan(module, *plan);
    ASSERT_TRUE(ok.ok()) << ok.to_string() << "\nlimit " << limit << "\n" << ir::to_text(module);
  }
  EXPECT_EQ(slower, unlimited->predicted_seconds);
}

void fill(ir::Literal& literal, std::uint64_t seed) {
  if (literal.shape().is_tuple()) {
    for (ir::Literal& element : literal.mutable_elements()) fill(element, seed + 1);
    return;
  }
  for (std::int64_t i = 0; i < literal.shape().element_count(); ++i) {
    literal.set(i,
                static_cast<double>((seed * 7 + static_cast<std::uint64_t>(i) * 13) % 5) / 2 - 1);
  }
}

TEST(PlannerRandom, EveryLimitOfEveryModuleHasAProvenPlan) {
  cases::RandomModuleOptions shape;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    shape.instructions = 20 + static_cast<int>(seed % 4) * 30;
    shape.large_constants = seed % 3 == 0;
    const auto module = cases::random_module(seed, shape);
    ASSERT_NE(module, nullptr);
    PlanOptions options;
    const Policy policies[] = {Policy::default_, Policy::default_, Policy::greedy, Policy::sqrt};
    options.policy = policies[seed % 4];
    check_all_limits(*module, options, "seed " + std::to_string(seed));
  }
}

TEST(PlannerRandom, EveryLimitOfEveryGraphHasAProvenPlan) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    check_all_limits(*random_graph(seed, 80), {}, "graph " + std::to_string(seed));
  }
  check_all_limits(*training_step(12, 64, 32), {}, "mlp");
  check_all_limits(*training_step(12, 64, 32, true), {}, "residual");
}

// Where there is a first plan it keeps the limit, and nothing limits it where nothing limits
// others; below the floor there is none. Returns how many of the limits had one.
int check_first_plans(const ir::Module& module, PlanOptions options, const std::string& name) {
  SCOPED_TRACE(name);
  const WorkspaceModel cost_model;
  auto full = ModulePlanner::create(module, cost_model, options);
  options.effort = Effort::first;
  auto quick = ModulePlanner::create(module, cost_model, options);
  if (!full.ok() || !quick.ok()) {
    ADD_FAILURE() << full.status().to_string() << quick.status().to_string();
    return 0;
  }
  const auto unlimited = (*full)->plan(kUnlimited);
  const auto same = (*quick)->plan(kUnlimited);
  EXPECT_TRUE(unlimited.ok() && same.ok());
  EXPECT_EQ(same->peak_bytes, unlimited->peak_bytes);
  EXPECT_EQ(same->predicted_seconds, unlimited->predicted_seconds);
  const std::int64_t floor = (*full)->floor().bytes;
  const auto below = (*quick)->plan(floor - 1);
  EXPECT_FALSE(below.ok());
  EXPECT_EQ(below.status().code(), StatusCode::resource_exhausted);
  EXPECT_EQ(below.status().shortage(), nullptr);
  int made = 0;
  for (int i = 0; i <= 10; ++i) {
    const std::int64_t limit = floor + (unlimited->peak_bytes - floor) * i / 10;
    const auto plan = (*quick)->plan(limit);
    if (!plan.ok()) {
      EXPECT_EQ(plan.status().code(), StatusCode::resource_exhausted);
      continue;
    }
    ++made;
    EXPECT_LE(plan->peak_bytes, limit);
    EXPECT_GE(plan->predicted_seconds, plan->lower_bound_seconds);
    const Status proof = check_plan(module, *plan);
    EXPECT_TRUE(proof.ok()) << proof.to_string() << "\nlimit " << limit << "\n"
                            << ir::to_text(module);
    // Another planner, asked for nothing else before, gives the same.
    if (i != 5) continue;
    options.limit_bytes = limit;
    const auto again = make_plan(module, cost_model, options);
    EXPECT_TRUE(again.ok());
    EXPECT_EQ(again->predicted_seconds, plan->predicted_seconds);
    EXPECT_EQ(again->arena_bytes, plan->arena_bytes);
  }
  return made;
}

TEST(PlannerRandom, FirstPlansKeepTheLimitAndLeaveTheFloorWhereItIs) {
  cases::RandomModuleOptions shape;
  int made = 0, asked = 0;
  for (std::uint64_t seed = 400; seed < 440; ++seed) {
    shape.instructions = 20 + static_cast<int>(seed % 4) * 30;
    shape.large_constants = seed % 3 == 0;
    const auto module = cases::random_module(seed, shape);
    made += check_first_plans(*module, {}, "seed " + std::to_string(seed));
    asked += 11;
  }
  for (std::uint32_t seed = 20; seed < 30; ++seed) {
    made += check_first_plans(*random_graph(seed, 80), {}, "graph " + std::to_string(seed));
    asked += 11;
  }
  made += check_first_plans(*training_step(12, 64, 32), {}, "mlp");
  made += check_first_plans(*training_step(12, 64, 32, true), {}, "residual");
  asked += 22;
  EXPECT_GE(2 * made, asked) << made << " of " << asked;
}

TEST(PlannerRandom, StoppedSearchesSaySo) {
  const RooflineCostModel cost_model;
  const auto module = training_step(12, 64, 32);
  Cancellation stop;
  auto planner = ModulePlanner::create(*module, cost_model, {}, &stop);
  ASSERT_TRUE(planner.ok());
  const std::int64_t limit = (*planner)->floor().bytes;
  PlanCache cache(*module);
  PlanOptions options;
  options.limit_bytes = limit;
  stop.cancel();
  EXPECT_EQ((*planner)->plan(limit, &stop).status().code(), StatusCode::cancelled);
  EXPECT_EQ(ModulePlanner::create(*module, cost_model, {}, &stop).status().code(),
            StatusCode::cancelled);
  EXPECT_EQ(cache.plan(cost_model, options, &stop).status().code(), StatusCode::cancelled);
  // Nothing of it is left.
  const auto plan = cache.plan(cost_model, options);
  const auto expected = make_plan(*module, cost_model, options);
  ASSERT_TRUE(plan.ok() && expected.ok());
  EXPECT_EQ((*plan)->predicted_seconds, expected->predicted_seconds);
  EXPECT_EQ((*plan)->arena_bytes, expected->arena_bytes);
}

TEST(PlannerRandom, HostParametersAreUploadedAndCountOnlyWhileAlive) {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    const auto module = cases::random_module(seed);
    PlanOptions options;
    std::size_t leaves = 0;
    for (const ir::Instruction* parameter : module->entry()->parameters()) {
      leaves += static_cast<std::size_t>(ir::leaf_count(parameter->shape()));
    }
    for (std::size_t i = 0; i < leaves; ++i) {
      const ParameterResidency kinds[] = {ParameterResidency::host, ParameterResidency::donated,
                                          ParameterResidency::resident};
      options.parameters.push_back(kinds[(seed + i) % 3]);
    }
    check_all_limits(*module, options, "seed " + std::to_string(seed));
  }
}

// Results in host memory count nowhere once they are there; every third one stays on the device.
TEST(PlannerRandom, ResultsOnTheHostAreDownloadedAndCountOnlyWhileAlive) {
  const WorkspaceModel cost_model;
  for (std::uint64_t seed = 130; seed < 136; ++seed) {
    const auto module = cases::random_module(seed);
    const ir::Shape& result = module->entry()->root()->shape();
    PlanOptions options;
    for (int k = 0; k < ir::leaf_count(result); ++k) {
      options.results_on_host.push_back((seed + static_cast<std::uint64_t>(k)) % 3 != 0);
    }
    if (seed % 2 == 0) {
      for (const ir::Instruction* parameter : module->entry()->parameters()) {
        options.parameters.insert(options.parameters.end(),
                                  static_cast<std::size_t>(ir::leaf_count(parameter->shape())),
                                  ParameterResidency::donated);
      }
    }
    check_all_limits(*module, options, "seed " + std::to_string(seed));
    const auto plan = make_plan(*module, cost_model, options);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    std::int64_t outputs = 0, downloads = 0;
    for (const Step& step : plan->steps) downloads += step.kind == StepKind::download ? 1 : 0;
    const auto leaves = ir::leaves(result);
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      const Buffer& buffer = plan->buffers[plan->results[k]];
      EXPECT_EQ(buffer.host, options.results_on_host[k]);
      if (options.results_on_host[k]) --downloads;
      if (buffer.placement == Placement::output && !buffer.host) outputs += buffer.bytes;
    }
    EXPECT_EQ(downloads, 0);
    EXPECT_EQ(plan->by_cause.outputs, outputs);
    options.results_on_host.push_back(true);
    EXPECT_EQ(make_plan(*module, cost_model, options).status().code(),
              StatusCode::invalid_argument);
  }
}

// What takes a result's own place, where that result goes to the host, comes after its download.
TEST(PlannerRandom, NothingTakesThePlaceOfAResultOnItsWayToTheHost) {
  const auto module = parse(
      "HloModule m\nENTRY e {\n p = f32[64,64] parameter(0)\n q = f32[64,64] parameter(1)\n"
      " s = f32[64,64] negate(p)\n d = f32[64,64] multiply(s, q)\n"
      " ROOT r = (f32[64,64], f32[64,64]) tuple(s, d)\n}\n");
  PlanOptions options;
  options.results_on_host = {true, false};
  check_all_limits(*module, options, "in place");
}

// Orders other than the first one know what constants take, too.
TEST(PlannerRandom, LargeConstantsAreCountedInEveryOrder) {
  cases::RandomModuleOptions shape;
  shape.large_constants = true;
  shape.control_flow = false;
  shape.smallest_bytes = 4 << 10;
  for (const std::uint64_t seed : {0, 9, 19, 32, 34, 56}) {
    shape.instructions = 20 + static_cast<int>(seed % 4) * 20;
    check_all_limits(*cases::random_module(seed, shape), {}, "seed " + std::to_string(seed));
  }
}

// A limit is answered without the steps below it; having made them changes nothing.
TEST(PlannerRandom, AnswersDoNotDependOnWhatWasAskedBefore) {
  const RooflineCostModel cost_model;
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const auto module = seed % 2 == 0 ? random_graph(seed, 80) : cases::random_module(seed);
    auto whole = ModulePlanner::create(*module, cost_model, {});
    ASSERT_TRUE(whole.ok());
    const std::int64_t floor = (*whole)->floor().bytes;
    const auto unlimited = (*whole)->plan(kUnlimited);
    ASSERT_TRUE(unlimited.ok());
    for (int i = 0; i <= 6; ++i) {
      PlanOptions options;
      options.limit_bytes = floor + (unlimited->peak_bytes - floor) * i / 6;
      const auto expected = (*whole)->plan(options.limit_bytes);
      const auto actual = make_plan(*module, cost_model, options);
      ASSERT_TRUE(expected.ok() && actual.ok()) << "seed " << seed << " share " << i;
      EXPECT_LE(actual->peak_bytes, options.limit_bytes);
      EXPECT_EQ(actual->predicted_seconds, expected->predicted_seconds);
      EXPECT_EQ(actual->steps.size(), expected->steps.size());
    }
  }
}

TEST(PlannerRandom, EqualInputGivesEqualPlans) {
  const auto one = cases::random_module(7);
  const auto two = cases::random_module(7);
  const RooflineCostModel cost_model;
  const auto floor = find_floor(*one, cost_model, {});
  ASSERT_TRUE(floor.ok());
  PlanOptions options;
  options.limit_bytes = floor->bytes + floor->bytes / 5;
  const auto a = make_plan(*one, cost_model, options);
  const auto b = make_plan(*two, cost_model, options);
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_EQ(a->steps.size(), b->steps.size());
  for (const StepId t : a->steps.ids()) {
    EXPECT_EQ(a->steps[t].kind, b->steps[t].kind);
    EXPECT_EQ(a->steps[t].inputs, b->steps[t].inputs);
    EXPECT_EQ(a->steps[t].outputs, b->steps[t].outputs);
  }
  ASSERT_EQ(a->buffers.size(), b->buffers.size());
  for (const BufferId id : a->buffers.ids()) {
    EXPECT_EQ(a->buffers[id].offset, b->buffers[id].offset);
  }
}

TEST(PlannerRandom, AppliedPlansLeaveValidModules) {
  for (std::uint64_t seed = 200; seed < 230; ++seed) {
    const auto module = cases::random_module(seed);
    const RooflineCostModel cost_model;
    PlanOptions options;
    options.remedies = {.recompute = true, .compress = false, .swap = false};
    const auto floor = find_floor(*module, cost_model, options);
    ASSERT_TRUE(floor.ok());
    options.limit_bytes = floor->bytes;
    const auto plan = make_plan(*module, cost_model, options);
    ASSERT_TRUE(plan.ok());
    const auto written = tools::module_of_plan(*module, *plan);
    ASSERT_TRUE(written.ok()) << written.status().to_string() << "\n" << ir::to_text(*module);
    if (plan->counts.recompute > 0) {
      EXPECT_GT((*written)->instruction_count(), module->instruction_count());
    }
    // Planned as written, without recomputing anything, it needs about what the plan said: in-place
    // updates are chosen anew, so not to the byte.
    PlanOptions none;
    none.policy = Policy::none;
    const auto again = make_plan(**written, cost_model, none);
    ASSERT_TRUE(again.ok());
    EXPECT_LE(again->live_bytes, floor->bytes + floor->bytes / 6) << "seed " << seed;
  }
}

// Applied recomputation changes no bit, by the reference interpreter.
TEST(PlannerRandom, AppliedPlansComputeTheSameBits) {
  cases::RandomModuleOptions shape;
  shape.instructions = 40;
  shape.largest_bytes = 4 << 10;
  int recomputed = 0;
  for (std::uint64_t seed = 300; seed < 325; ++seed) {
    const auto module = cases::random_module(seed, shape);
    std::vector<ir::Literal> arguments;
    for (const ir::Instruction* parameter : module->entry()->parameters()) {
      arguments.emplace_back(parameter->shape());
      fill(arguments.back(), seed);
    }
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    const RooflineCostModel cost_model;
    PlanOptions options;
    options.remedies = {.recompute = true, .compress = false, .swap = false};
    const auto floor = find_floor(*module, cost_model, options);
    ASSERT_TRUE(floor.ok());
    options.limit_bytes = floor->bytes;
    const auto plan = make_plan(*module, cost_model, options);
    ASSERT_TRUE(plan.ok());
    recomputed += plan->counts.recompute > 0;
    const auto written = tools::module_of_plan(*module, *plan);
    ASSERT_TRUE(written.ok()) << written.status().to_string();
    const auto actual = ir::interpret(**written, arguments);
    ASSERT_TRUE(actual.ok()) << actual.status().to_string();
    EXPECT_TRUE(*expected == *actual) << "seed " << seed;
  }
  EXPECT_GT(recomputed, 5);
}

}  // namespace
}  // namespace plimsoll::planner
