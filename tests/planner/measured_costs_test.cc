// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/cost/measured_costs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/ir/text/text.h"
#include "runtime/planner/cost/work_signature.h"
#include "runtime/planner/plan_cache.h"
#include "tests/cases/programs.h"

namespace plimsoll::planner {
namespace {

// Everything costs a microsecond, whatever it is.
class FlatModel : public CostModel {
 public:
  double seconds(const ir::Instruction&) const override { return 1e-6; }
  std::int64_t workspace_bytes(const ir::Instruction&) const override { return 0; }
  double codec_seconds(const Codec&, const ir::Shape&, bool) const override { return 1e-6; }
};

class MeasuredCostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ir::parse_module(cases::kTwoWaitForOne, "m");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    module_ = std::move(*module);
    costs_ = std::make_unique<MeasuredCosts>(std::make_unique<FlatModel>());
  }
  const ir::Instruction& at(const char* name) { return *module_->entry()->find(name); }

  std::unique_ptr<ir::Module> module_;
  std::unique_ptr<MeasuredCosts> costs_;
};

TEST_F(MeasuredCostsTest, PublishesOnlyWhatDriftedByMoreThanTheShare) {
  for (int run = 0; run < 2; ++run) {
    costs_->record(at("a"), 1.1e-6);
    costs_->finish_run();
  }
  EXPECT_NEAR(costs_->drift(), 0.1, 1e-9);
  EXPECT_FALSE(costs_->update(0.25));
  EXPECT_EQ(costs_->version(), 0U);
  for (int run = 0; run < 3; ++run) {
    costs_->record(at("a"), 40e-6);
    costs_->finish_run();
  }
  EXPECT_FALSE(costs_->update(0));
  EXPECT_TRUE(costs_->update(0.25));
  EXPECT_EQ(costs_->version(), 1U);
  EXPECT_EQ(costs_->model().version(), 1U);
  EXPECT_EQ(costs_->drift(), 0);
}

TEST(MeasuredCosts, FasterProductsContradictTheBaseAndSlowerOnesDoNot) {
  const auto module = ir::parse_module(
      "HloModule m\nENTRY e {\n  a = f32[512,512] parameter(0)\n"
      "  s = f32[512,512] add(a, a)\n"
      "  ROOT d = f32[512,512] dot(s, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
      "m");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const ir::Instruction& dot = *(*module)->entry()->find("d");
  const ir::Instruction& add = *(*module)->entry()->find("s");
  const RooflineCostModel base{Roofline()};
  const auto contradict = [&](double dot_share, double add_share, int runs) {
    MeasuredCosts costs(std::make_unique<RooflineCostModel>(Roofline()));
    for (int run = 0; run < runs; ++run) {
      costs.record(dot, dot_share * base.seconds(dot));
      costs.record(add, add_share * base.seconds(add));
      costs.finish_run();
    }
    return costs.contradict_base();
  };
  EXPECT_TRUE(contradict(0.4, 1, 3));
  EXPECT_FALSE(contradict(0.4, 1, 2));
  EXPECT_FALSE(contradict(0.6, 0.1, 3));
  EXPECT_FALSE(contradict(5, 5, 3));
}

TEST_F(MeasuredCostsTest, TheTimeBetweenTwoModelsAtLeastDoubles) {
  std::vector<int> published;
  double seconds = 1e-6;
  for (int run = 1; run <= 100; ++run) {
    costs_->record(at("a"), seconds *= 1.5);  // never settles
    costs_->finish_run();
    if (costs_->update(0.01)) published.push_back(run);
  }
  EXPECT_EQ(published, (std::vector<int>{2, 4, 8, 16, 32, 64}));
}

TEST_F(MeasuredCostsTest, WhatWasNotMeasuredIsScaledByItsClass) {
  for (int run = 0; run < 2; ++run) {
    costs_->record(at("a"), 3e-6);
    costs_->record(at("r"), 10e-6);
    costs_->finish_run();
  }
  const CostModel& before = costs_->model();
  ASSERT_TRUE(costs_->update(0.25));
  const CostModel& model = costs_->model();
  EXPECT_DOUBLE_EQ(model.seconds(at("a")), 3e-6);
  EXPECT_DOUBLE_EQ(model.seconds(at("b")), 3e-6);   // elementwise, as a
  EXPECT_DOUBLE_EQ(model.seconds(at("r")), 10e-6);  // a reduction
  EXPECT_DOUBLE_EQ(before.seconds(at("a")), 1e-6);  // what was given out stays as it was
}

TEST_F(MeasuredCostsTest, TheFirstLaunchDoesNotCountWhenALaterOneIsFaster) {
  costs_->record(at("a"), 1.0);
  costs_->finish_run();
  costs_->record(at("a"), 2e-6);
  costs_->finish_run();
  ASSERT_TRUE(costs_->update(0.25));
  EXPECT_DOUBLE_EQ(costs_->model().seconds(at("a")), 2e-6);
}

TEST_F(MeasuredCostsTest, OfManyLaunchesTheMedianCounts) {
  for (const double seconds : {3e-6, 900e-6, 4e-6, 5e-6, 800e-6}) {
    costs_->record(at("a"), seconds);
    costs_->finish_run();
  }
  ASSERT_TRUE(costs_->update(0.25));
  EXPECT_DOUBLE_EQ(costs_->model().seconds(at("a")), 5e-6);
}

TEST_F(MeasuredCostsTest, BytesThatCachesMissCostWhatTheMachineSays) {
  CacheSpeeds cache;
  cache.bytes = 1 << 20;
  cache.streaming_seconds = 1e-9;
  MeasuredCosts costs(std::make_unique<FlatModel>(), cache);
  for (int run = 0; run < 3; ++run) {
    costs.record(at("a"), 10e-6, 1, 4000);  // first executions
    costs.record(at("a"), 6e-6, 3, 0);      // later ones find everything in the cache
    costs.finish_run();
  }
  ASSERT_TRUE(costs.update(0.25));
  const CostModel& model = costs.model();
  EXPECT_NEAR(model.seconds_with(at("a"), 4000), 10e-6, 1e-12);
  EXPECT_NEAR(model.seconds_with(at("a"), 0), 6e-6, 1e-12);
  EXPECT_NEAR(model.seconds(at("a")), 7e-6, 1e-12);  // as often as it ran so
  EXPECT_EQ(model.seconds_with(at("b"), 4000), model.seconds_with(at("b"), 0));
}

// Recomputations that take longer than first executions, in every run alike: a median over both
// kinds would be one of them.
TEST_F(MeasuredCostsTest, ExecutionsOfOneRunCountByTheirMean) {
  for (int run = 0; run < 5; ++run) {
    costs_->record(at("a"), 2e-6, 1);
    costs_->record(at("a"), 10e-6, 3);
    costs_->finish_run();
  }
  ASSERT_TRUE(costs_->update(0.25));
  EXPECT_NEAR(costs_->model().seconds(at("a")), 8e-6, 1e-12);
}

// The machine was measured while others used its memory.
TEST_F(MeasuredCostsTest, BytesThatCachesMissCostNoMoreThanKernelsTakeThatMissThem) {
  CacheSpeeds cache;
  cache.bytes = 1 << 20;
  cache.streaming_seconds = 10e-9;
  constexpr double kMissed = 1 << 20, kSeconds = 1e-3;
  MeasuredCosts costs(std::make_unique<FlatModel>(), cache);
  for (int run = 0; run < 3; ++run) {
    costs.record(at("b"), 2e-3, 1, 1 << 10);  // too few to tell
    costs.record(at("a"), kSeconds, 1, kMissed);
    costs.finish_run();
  }
  ASSERT_TRUE(costs.update(0.25));
  EXPECT_NEAR(costs.model().seconds_with(at("a"), kMissed), kSeconds, 1e-12);
  EXPECT_NEAR(costs.model().seconds_with(at("a"), 2 * kMissed), 1.7 * kSeconds, 1e-12);
  EXPECT_NEAR(costs.model().seconds_with(at("a"), 0), 0.3 * kSeconds, 1e-12);
}

TEST_F(MeasuredCostsTest, WhatTransfersDisturbCountsWhereNothingElseDoes) {
  const auto record = [&](double seconds, bool disturbed) {
    costs_->record(at("a"), seconds, 1, 0, disturbed);
    costs_->finish_run();
  };
  record(9e-6, true);
  record(9e-6, true);
  ASSERT_TRUE(costs_->update(0.25));
  EXPECT_DOUBLE_EQ(costs_->model().seconds(at("a")), 9e-6);
  record(2e-6, false);
  record(9e-6, true);
  record(9e-6, true);
  ASSERT_TRUE(costs_->update(0.25));
  EXPECT_DOUBLE_EQ(costs_->model().seconds(at("a")), 2e-6);
}

TEST_F(MeasuredCostsTest, ALinksLatencyIsNotItsRate) {
  PlanOptions options;
  options.host = {1 << 30, 10e9, 10e9, 5e-6};
  costs_->assume_tiers(options);
  for (int run = 0; run < 2; ++run) {
    costs_->record_transfer(Link::host_out, 30e3, 8e-6);  // as assumed
    costs_->record_transfer(Link::host_in, 30e3, 20e-6);
    costs_->finish_run();
  }
  EXPECT_NEAR(costs_->drift(), 12.0 / 16, 1e-9);
  ASSERT_TRUE(costs_->update(0.25));
  costs_->apply_links(options);
  EXPECT_DOUBLE_EQ(options.host.out_bytes_per_second, 10e9);
  EXPECT_DOUBLE_EQ(options.host.in_bytes_per_second, 2e9);
}

TEST_F(MeasuredCostsTest, SynchronousCopiesHaveSpeedsOfTheirOwn) {
  PlanOptions options;
  options.host = {1 << 30, 10e9, 10e9, 5e-6, 0.5, 20e9, 20e9};
  costs_->assume_tiers(options);
  for (int run = 0; run < 2; ++run) {
    costs_->record_transfer(Link::host_synchronous_out, 40e3, 2e-6);  // as assumed
    costs_->record_transfer(Link::host_synchronous_in, 40e3, 8e-6);
    costs_->finish_run();
  }
  EXPECT_NEAR(costs_->drift(), 6.0 / 4, 1e-9);
  ASSERT_TRUE(costs_->update(0.25));
  costs_->apply_links(options);
  EXPECT_DOUBLE_EQ(options.host.synchronous_out_bytes_per_second, 20e9);
  EXPECT_DOUBLE_EQ(options.host.synchronous_in_bytes_per_second, 5e9);
  EXPECT_DOUBLE_EQ(options.host.in_bytes_per_second, 10e9);
}

TEST_F(MeasuredCostsTest, PlansArePricedByWhatNoModelInForceKnows) {
  const auto plan = make_plan(*module_, costs_->model(), {});
  ASSERT_TRUE(plan.ok());
  EXPECT_NEAR(costs_->seconds_of(*plan, {}), plan->predicted_seconds, 1e-12);
  costs_->record(at("a"), 11e-6);
  costs_->record(at("b"), 21e-6);
  costs_->record(at("r"), 1e-6);
  costs_->finish_run();
  EXPECT_EQ(costs_->version(), 0U);
  EXPECT_GT(costs_->seconds_of(*plan, {}), plan->predicted_seconds + 29e-6);
}

TEST_F(MeasuredCostsTest, LinksCountAndAreTakenOver) {
  PlanOptions options;
  options.host = {1 << 30, 10e9, 10e9, 0};
  costs_->assume_tiers(options);
  for (int run = 0; run < 2; ++run) {
    costs_->record_transfer(Link::host_out, 1e6, 1e-4);  // as assumed
    costs_->record_transfer(Link::host_in, 1e6, 4e-4);
    costs_->finish_run();
  }
  EXPECT_NEAR(costs_->drift(), 1.5, 1e-9);
  costs_->apply_links(options);
  EXPECT_EQ(options.host.in_bytes_per_second, 10e9);  // nothing is published yet
  ASSERT_TRUE(costs_->update(0.25));
  costs_->apply_links(options);
  EXPECT_DOUBLE_EQ(options.host.in_bytes_per_second, 2.5e9);
  EXPECT_DOUBLE_EQ(options.host.out_bytes_per_second, 10e9);
  EXPECT_EQ(options.disk.in_bytes_per_second, Tier().in_bytes_per_second);
  EXPECT_NEAR(costs_->drift(), 0, 1e-9);
}

// Another form of the same program: its own instructions, which do what those of the first do.
TEST_F(MeasuredCostsTest, FormsShareWhatWasMeasured) {
  const auto other = ir::parse_module(cases::kTwoWaitForOne, "m");
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  const auto of_other = [&](const char* name) -> const ir::Instruction& {
    return *(*other)->entry()->find(name);
  };
  MeasuredCosts others(std::make_unique<FlatModel>(), costs_->times());
  const CostModel& before = others.model();
  for (int run = 0; run < 3; ++run) {
    costs_->record(at("a"), 3e-6);
    costs_->record(at("r"), 10e-6);
    costs_->record_transfer(Link::host_in, 1e6, 4e-4);
    costs_->finish_run();
  }
  ASSERT_TRUE(costs_->update(0.25));
  EXPECT_EQ(others.version(), costs_->version());
  EXPECT_EQ(others.model().version(), costs_->version());
  EXPECT_DOUBLE_EQ(others.model().seconds(of_other("a")), 3e-6);
  EXPECT_DOUBLE_EQ(others.model().seconds(of_other("r")), 10e-6);
  EXPECT_DOUBLE_EQ(others.model().seconds(of_other("b")), 3e-6);  // as what is elementwise
  EXPECT_DOUBLE_EQ(before.seconds(of_other("a")), 1e-6);
  PlanOptions options;
  options.host.bytes = 1 << 30;
  others.apply_links(options);
  EXPECT_DOUBLE_EQ(options.host.in_bytes_per_second, 2.5e9);
  // Its own runs tell more of it, and what it drifts by is of its own.
  EXPECT_NEAR(others.drift(), 0, 1e-9);
  others.record(of_other("a"), 9e-6);
  EXPECT_GT(others.drift(), 0);
  EXPECT_NEAR(costs_->drift(), 0, 1e-9);
  others.finish_run();
  others.finish_run();
  ASSERT_TRUE(others.update(0.01));
  EXPECT_DOUBLE_EQ(others.model().seconds(of_other("a")), 9e-6);
  EXPECT_DOUBLE_EQ(costs_->model().seconds(at("a")), 3e-6);
}

TEST(WorkSignature, IsThatOfTheWork) {
  const auto module = ir::parse_module(R"(
HloModule m
ENTRY e {
  p = f32[8,8] parameter(0)
  q = f32[8,8] parameter(1)
  ab = f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  again = f32[8,8] dot(q, ab), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="x"}
  turned = f32[8,8] dot(p, q), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  half = f16[8,8] convert(p)
  halves = f16[8,8] dot(half, half), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (f32[8,8], f32[8,8], f16[8,8]) tuple(again, turned, halves)
})",
                                       "m");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto of = [&](const char* name) { return work_signature(*(*module)->entry()->find(name)); };
  EXPECT_EQ(of("ab"), of("again"));
  EXPECT_NE(of("ab"), of("turned"));
  EXPECT_NE(of("ab"), of("halves"));
}

// Each computation calls the one before twice: all of it would be 2^60 instructions.
TEST(WorkSignature, LooksAtNoMoreThanItSays) {
  std::string text = "HloModule m\nf0 {\n  ROOT x = f32[8] parameter(0)\n}\n";
  for (int i = 1; i <= 60; ++i) {
    const std::string calls = "kind=kLoop, calls=f" + std::to_string(i - 1);
    text += "f" + std::to_string(i) + " {\n  x = f32[8] parameter(0)\n  a = f32[8] fusion(x), " +
            calls + "\n  ROOT b = f32[8] fusion(a), " + calls + "\n}\n";
  }
  text +=
      "ENTRY e {\n  p = f32[8] parameter(0)\n  q = f32[8] fusion(p), kind=kLoop, calls=f60\n"
      "  ROOT r = f32[8] call(q), to_apply=f60\n}\n";
  const auto module = ir::parse_module(text, "m");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto of = [&](const char* name) { return work_signature(*(*module)->entry()->find(name)); };
  EXPECT_NE(of("q"), of("r"));
}

std::vector<std::string> recomputed(const Plan& plan) {
  std::vector<std::string> names;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::recompute) names.push_back(step.instruction->name());
  }
  return names;
}

TEST_F(MeasuredCostsTest, PlansFollowWhatWasMeasured) {
  PlanCache cache(*module_);
  PlanOptions options;
  const auto unlimited = cache.plan(costs_->model(), options);
  ASSERT_TRUE(unlimited.ok());
  options.limit_bytes = (*unlimited)->peak_bytes - 4096;
  const auto first = cache.plan(costs_->model(), options);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_EQ(recomputed(**first).size(), 1U);
  const std::string dear = recomputed(**first)[0];
  for (int run = 0; run < 2; ++run) {
    for (const char* name : {"a", "b"}) costs_->record(at(name), name == dear ? 1.0 : 1e-6);
    costs_->finish_run();
  }
  ASSERT_TRUE(costs_->update(0.25));
  const auto second = cache.plan(costs_->model(), options);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(recomputed(**second), std::vector<std::string>{dear == "a" ? "b" : "a"});
  EXPECT_LE((*second)->peak_bytes, options.limit_bytes);
}

TEST_F(MeasuredCostsTest, TheSameQuestionIsAnsweredByALookUp) {
  PlanCache cache(*module_);
  PlanOptions options;
  const auto once = cache.plan(costs_->model(), options);
  const auto twice = cache.plan(costs_->model(), options);
  ASSERT_TRUE(once.ok() && twice.ok());
  EXPECT_EQ(once->get(), twice->get());
  const auto floor = cache.floor(costs_->model(), options);
  ASSERT_TRUE(floor.ok());
  options.limit_bytes = floor->bytes;
  EXPECT_TRUE(cache.plan(costs_->model(), options).ok());
  options.limit_bytes = floor->bytes - 1;
  EXPECT_FALSE(cache.plan(costs_->model(), options).ok());
  EXPECT_EQ(cache.statistics().searches, 1);
  EXPECT_EQ(cache.statistics().hits, 1);
  options.min_bytes = 1 << 20;
  options.limit_bytes = kUnlimited;
  EXPECT_TRUE(cache.plan(costs_->model(), options).ok());
  EXPECT_EQ(cache.statistics().searches, 2);
}

}  // namespace
}  // namespace plimsoll::planner
