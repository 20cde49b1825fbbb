// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/current_executable.h"
#include "runtime/device/devices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/programs.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

class CurrentExecutableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto provider = create_provider();
    ASSERT_TRUE(provider.ok());
    provider_ = std::move(*provider);
    auto module = ir::parse_module(cases::kTwoWaitForOne, "m");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    auto program = Program::create(std::move(*module), *provider_, false);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = std::move(*program);
    const auto unlimited = program_->plan({});
    ASSERT_TRUE(unlimited.ok());
    options_.limit_bytes = (*unlimited)->peak_bytes - 4096;
    budget_ = memory::Budget::create(device::default_device(), options_.limit_bytes);
    std::vector<float> values(1024);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01F * static_cast<float>(i) - 3;
    input_ = ir::Literal::from_bytes(ir::Shape(ir::DType::f32, {1024}),
                                     std::as_bytes(std::span<const float>(values)));
  }

  static std::string recomputed(const Executable& executable) {
    std::string names;
    for (const planner::Step& step : executable.plan().steps) {
      if (step.kind == planner::StepKind::recompute) names += step.instruction->name();
    }
    return names;
  }
  ir::Literal run(const Executable& executable) {
    auto result = run_on_host(executable, *budget_, std::span(&input_, 1));
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(*result) : ir::Literal();
  }

  std::shared_ptr<device::KernelProvider> provider_;
  std::shared_ptr<const Program> program_;
  planner::PlanOptions options_;
  std::shared_ptr<memory::Budget> budget_;
  ir::Literal input_;
};

TEST_F(CurrentExecutableTest, PlansAgainWhenTimesDriftAndComputesTheSameBits) {
  const auto current = CurrentExecutable::create(program_, options_, budget_, 0.25);
  ASSERT_TRUE(current.ok()) << current.status().to_string();
  const auto first = (*current)->next();
  const std::string dear = recomputed(*first);
  ASSERT_EQ(dear.size(), 1U) << dear;
  const ir::Literal before = run(*first);
  const ir::Module& module = program_->module();
  for (int i = 0; i < 4; ++i) {
    for (const char* name : {"a", "b"}) {
      program_->costs().record(*module.entry()->find(name), name == dear ? 1.0 : 1e-6);
    }
    program_->costs().finish_run();
  }
  EXPECT_EQ((*current)->next().get(), first.get());  // which asks for another plan
  (*current)->wait_for_plans();
  EXPECT_FALSE((*current)->is_planning());
  EXPECT_TRUE((*current)->is_trying());  // the old one and the new one, in turns
  const auto second = (*current)->next();
  EXPECT_NE(first.get(), second.get());
  EXPECT_EQ((*current)->replans(), 1);
  EXPECT_EQ(recomputed(*second), dear == "a" ? "b" : "a");
  EXPECT_LE(second->plan().peak_bytes, options_.limit_bytes);
  EXPECT_TRUE(before == run(*second));
  // The old one stays usable for whoever still holds it.
  EXPECT_TRUE(before == run(*first));
}

TEST_F(CurrentExecutableTest, AsksForItsPlanOnce) {
  const planner::PlanCache::Statistics before = program_->plans().statistics();
  const auto current = CurrentExecutable::create(program_, options_, budget_, 0.25);
  ASSERT_TRUE(current.ok()) << current.status().to_string();
  const planner::PlanCache::Statistics after = program_->plans().statistics();
  EXPECT_EQ(after.hits + after.misses - before.hits - before.misses, 1);
}

TEST_F(CurrentExecutableTest, TakesAPlanThatWasMadeBefore) {
  auto planned = plan_within(program_, options_);
  ASSERT_TRUE(planned.ok()) << planned.status().to_string();
  const planner::Plan* const plan = planned->plan.get();
  const planner::PlanCache::Statistics before = program_->plans().statistics();
  const auto current = CurrentExecutable::create(std::move(*planned), options_, budget_, 0.25);
  ASSERT_TRUE(current.ok()) << current.status().to_string();
  EXPECT_EQ(&(*current)->get()->plan(), plan);
  const planner::PlanCache::Statistics after = program_->plans().statistics();
  EXPECT_EQ(after.hits + after.misses, before.hits + before.misses);
}

TEST_F(CurrentExecutableTest, WithoutADriftTheFirstPlanStays) {
  const auto current = CurrentExecutable::create(program_, options_, budget_, 0);
  ASSERT_TRUE(current.ok());
  const auto first = (*current)->next();
  for (int i = 0; i < 8; ++i) {
    program_->costs().record(*program_->module().entry()->find("a"), 1.0);
    program_->costs().finish_run();
  }
  (*current)->wait_for_plans();
  EXPECT_EQ((*current)->next().get(), first.get());
  EXPECT_EQ(program_->costs().version(), 0U);
}

TEST_F(CurrentExecutableTest, TimesDoNotDecideWhatLosesBits) {
  // Encoding one of the two will do, as little as recomputing one; which has to stay the same.
  options_.remedies = {false, true, false, true};
  const auto current = CurrentExecutable::create(program_, options_, budget_, 0.25);
  ASSERT_TRUE(current.ok()) << current.status().to_string();
  const auto first = (*current)->next();
  ASSERT_GT(first->plan().counts.lossy, 0);
  for (int i = 0; i < 8; ++i) {
    for (const char* name : {"a", "b"}) {
      program_->costs().record(*program_->module().entry()->find(name), 1.0);
    }
    program_->costs().finish_run();
  }
  EXPECT_EQ((*current)->next().get(), first.get());
  (*current)->wait_for_plans();
  EXPECT_EQ((*current)->get().get(), first.get());
  EXPECT_EQ((*current)->replans(), 0);
}

TEST_F(CurrentExecutableTest, APlanThatPaysNothingIsNotMadeAgain) {
  const auto current = CurrentExecutable::create(
      program_, {}, memory::Budget::create(device::default_device(), planner::kUnlimited), 0.25);
  ASSERT_TRUE(current.ok());
  const auto first = (*current)->next();
  for (int i = 0; i < 8; ++i) {
    program_->costs().record(*program_->module().entry()->find("a"), 1.0);
    program_->costs().finish_run();
  }
  EXPECT_EQ((*current)->next().get(), first.get());
  (*current)->wait_for_plans();
  EXPECT_EQ((*current)->get().get(), first.get());
}

TEST_F(CurrentExecutableTest, RunsMeasureTheirInstructions) {
  const auto current = CurrentExecutable::create(program_, options_, budget_, 1e-9);
  ASSERT_TRUE(current.ok());
  for (int i = 0; i < 4; ++i) run(*(*current)->next());
  (*current)->next();
  EXPECT_GE(program_->costs().version(), 1U);
}

}  // namespace
}  // namespace plimsoll::executor
