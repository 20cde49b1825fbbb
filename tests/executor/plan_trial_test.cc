// SPDX-License-Identifier: Apache-2.0
// Trials of plans, with times that the tests make up: what real runs take decides no test.
#include "runtime/serve/plan_trial.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/run_times.h"
#include "runtime/ir/text/text.h"
#include "runtime/memory/tiers/host_tier.h"
#include "runtime/serve/current_executable.h"
#include "runtime/serve/plans_under_way.h"
#include "tests/cases/programs.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

using planner::StepKind;

TEST(RunTimes, AreTakenOnlyWhenAskedFor) {
  RunTimes times;
  times.record(1);
  EXPECT_EQ(times.count(), 0);
  EXPECT_EQ(times.median(), 0);
  times.start();
  for (const double seconds : {5.0, 1.0, 2.0}) times.record(seconds);
  EXPECT_EQ(times.count(), 3);
  EXPECT_EQ(times.median(), 2);
  times.record(9);
  EXPECT_EQ(times.median(), 2);  // of two in the middle the smaller
  times.stop();
  times.record(100);
  EXPECT_EQ(times.count(), 4);
  times.start();
  EXPECT_EQ(times.count(), 0);
  for (int i = 0; i < 2 * RunTimes::kMost; ++i) times.record(i);
  EXPECT_EQ(times.count(), RunTimes::kMost);
}

TEST(PlansUnderWay, OfTheParentAreNotTheChilds) {
  PlansUnderWay plans;
  EXPECT_FALSE(plans.any());
  plans.begin();
  plans.begin();
  plans.end();
  EXPECT_TRUE(plans.any());
  const pid_t child = ::fork();
  if (child == 0) {
    bool is_right = !plans.any();
    plans.end();
    is_right = is_right && !plans.any();
    plans.begin();
    is_right = is_right && plans.any();
    plans.end();
    ::_exit(is_right && !plans.any() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  plans.end();
  EXPECT_FALSE(plans.any());
}

// A program that can swap or recompute one of two values.
class PlanTrials : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ir::parse_module(cases::kTwoWaitForOne, "m");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    auto program = Program::create(std::move(*module), provider(), false);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = std::move(*program);
    const auto unlimited = program_->plan({});
    ASSERT_TRUE(unlimited.ok());
    options_.limit_bytes = (*unlimited)->peak_bytes - 4096;
    // A link that is said to cost nothing.
    constexpr std::int64_t kHost = 1 << 20;
    options_[MemorySpace::host] = {kHost, 1e15, 1e15, 0, 0};
    memory::Tiers tiers;
    tiers.host = memory::HostTier::create(device::default_device(), kHost);
    budget_ =
        memory::Budget::create(device::default_device(), options_.limit_bytes, std::move(tiers));
    const std::vector<float> values(1024, 0.5F);
    input_ = ir::Literal::from_bytes(ir::Shape(ir::DType::f32, {1024}),
                                     std::as_bytes(std::span<const float>(values)));
  }

  std::shared_ptr<CurrentExecutable> create() {
    auto made = CurrentExecutable::create(program_, options_, budget_, 0.25);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  static bool swaps(const Executable& executable) { return executable.plan().counts.swap_out > 0; }
  ir::Literal run(const Executable& executable) {
    auto result = run_on_host(executable, *budget_, std::span(&input_, 1));
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(*result) : ir::Literal();
  }
  // Runs that take as long as is said here, until a trial has ended; how many of them swapped.
  int go_through_trial(CurrentExecutable& current, double swapping, double recomputing) {
    const std::int64_t before = current.trials();
    int swapped = 0;
    for (int i = 0; i < 200 && current.trials() == before; ++i) {
      const auto now = current.next();
      current.wait_for_plans();
      now->run_times().record(swaps(*now) ? swapping : recomputing);
      if (swaps(*now)) ++swapped;
    }
    EXPECT_EQ(current.trials(), before + 1);
    return swapped;
  }

  std::shared_ptr<const Program> program_;
  planner::PlanOptions options_;
  std::shared_ptr<memory::Budget> budget_;
  ir::Literal input_;
};

TEST_F(PlanTrials, TheFasterOfTwoStays) {
  const auto current = create();
  const auto one = current->get();
  options_.remedies.swap = false;
  const auto other = create()->get();
  ASSERT_TRUE(swaps(*one) && !swaps(*other));
  const auto decide = [&](double incumbent, double challenger) {
    PlanTrial trial(one, other);
    std::vector<const Executable*> turns;
    do {
      const auto& turn = trial.turn();
      turns.push_back(turn.get());
      turn->run_times().record(turn == one ? incumbent : challenger);
    } while (!trial.advance());
    EXPECT_EQ(turns.size(), static_cast<std::size_t>(2 * PlanTrial::kRuns));
    EXPECT_EQ(turns[3], one.get());
    EXPECT_EQ(turns[4], other.get());
    EXPECT_EQ(turns[8], one.get());
    return trial.challenger_wins();
  };
  EXPECT_TRUE(decide(2, 1));
  EXPECT_FALSE(decide(1, 2));
  EXPECT_FALSE(decide(1, 0.995));
  EXPECT_FALSE(one->run_times().is_on());
}

TEST_F(PlanTrials, RunsThatArePausedDoNotCount) {
  const auto one = create()->get();
  options_.remedies.swap = false;
  const auto other = create()->get();
  PlanTrial trial(one, other);
  for (int i = 0; i < 6; ++i) {
    trial.turn()->run_times().record(1);
    EXPECT_FALSE(trial.advance());
  }
  EXPECT_EQ(trial.turn(), other);
  trial.pause(true);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(trial.turn(), one);
    trial.turn()->run_times().record(100);
    EXPECT_FALSE(trial.advance());
  }
  trial.pause(false);
  EXPECT_EQ(trial.turn(), other);
  EXPECT_EQ(one->run_times().count(), 4);
  EXPECT_EQ(other->run_times().count(), 2);
  EXPECT_EQ(one->run_times().median(), 1);
}

TEST_F(PlanTrials, WithoutTimesTheIncumbentStays) {
  const auto one = create()->get();
  options_.remedies.swap = false;
  PlanTrial trial(one, create()->get());
  int runs = 1;
  for (; !trial.advance() && runs < 1000; ++runs) {
  }
  EXPECT_EQ(runs, 6 * PlanTrial::kRuns);
  EXPECT_FALSE(trial.challenger_wins());
}

TEST_F(PlanTrials, SwappingGoesWhereRunsWithoutItAreFaster) {
  const auto current = create();
  const auto first = current->next();
  ASSERT_TRUE(swaps(*first));
  const ir::Literal expected = run(*first);
  const int swapped = go_through_trial(*current, 2e-3, 1e-3);
  EXPECT_GE(swapped, PlanTrial::kRuns);
  const auto second = current->get();
  EXPECT_FALSE(swaps(*second));
  EXPECT_LE(second->plan().peak_bytes, options_.limit_bytes);
  EXPECT_TRUE(expected == run(*second));
  EXPECT_LE(budget_->statistics().peak_bytes, options_.limit_bytes);
  // Nor does a plan that is made again by what was measured.
  for (int i = 0; i < 8; ++i) {
    for (const char* name : {"a", "b"}) {
      program_->costs().record(*program_->module().entry()->find(name), 1.0);
    }
    program_->costs().finish_run();
  }
  current->next();
  current->wait_for_plans();
  EXPECT_FALSE(swaps(*current->next()));
}

TEST_F(PlanTrials, SwappingStaysWhereItIsFaster) {
  const auto current = create();
  ASSERT_TRUE(swaps(*current->next()));
  EXPECT_LT(go_through_trial(*current, 1e-3, 2e-3), 32);
  EXPECT_TRUE(swaps(*current->get()));
  // It is tried once.
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(swaps(*current->next()));
    current->wait_for_plans();
  }
  EXPECT_EQ(current->trials(), 1);
}

TEST_F(PlanTrials, ALimitThatNothingElseKeepsTriesNothing) {
  options_.remedies.recompute = false;
  const auto current = create();
  ASSERT_TRUE(swaps(*current->next()));
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(swaps(*current->next()));
    current->wait_for_plans();
  }
  EXPECT_EQ(current->trials(), 0);
}

// Prices that were learned while the machine was busy bring a plan that is slower.
TEST_F(PlanTrials, APlanByNewPricesGoesAgainWhereTheOldOneWasFaster) {
  options_.remedies.swap = false;
  for (const bool new_is_faster : {false, true}) {
    auto module = ir::parse_module(cases::kTwoWaitForOne, "m");
    ASSERT_TRUE(module.ok());
    auto program = Program::create(std::move(*module), provider(), false);
    ASSERT_TRUE(program.ok());
    program_ = std::move(*program);
    const auto current = create();
    const auto first = current->next();
    std::string dear;
    for (const planner::Step& step : first->plan().steps) {
      if (step.kind == StepKind::recompute) dear += step.instruction->name();
    }
    ASSERT_EQ(dear.size(), 1U) << dear;
    for (int i = 0; i < 4; ++i) {
      for (const char* name : {"a", "b"}) {
        program_->costs().record(*program_->module().entry()->find(name),
                                 name == dear ? 1.0 : 1e-6);
      }
      program_->costs().finish_run();
    }
    current->next();
    current->wait_for_plans();
    const auto second = current->next();
    ASSERT_NE(second, first);
    EXPECT_EQ(current->replans(), 1);
    for (int i = 0; i < 100 && current->trials() == 0; ++i) {
      const auto now = current->next();
      ASSERT_TRUE(now == first || now == second);
      now->run_times().record((now == second) == new_is_faster ? 1 : 2);
    }
    EXPECT_EQ(current->trials(), 1);
    EXPECT_EQ(current->get(), new_is_faster ? second : first);
    // Whichever stays goes on being measured.
    const std::int64_t measured = program_->costs().runs();
    for (int i = 0; i < 5; ++i) run(*current->get());
    EXPECT_GT(program_->costs().runs(), measured);
  }
}

}  // namespace
}  // namespace plimsoll::executor
