// SPDX-License-Identifier: Apache-2.0
// First plans, and better ones from the background. No test waits for a time: those that want a job
// to begin later keep the worker busy until then.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/one_thread.h"
#include "runtime/device/devices.h"
#include "runtime/executor/host_run.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/residency.h"
#include "runtime/serve/current_executable.h"
#include "runtime/serve/executable_cache.h"
#include "runtime/serve/shared_plans.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

using planner::Effort;

// Keeps the worker from beginning any other job until it is released.
class BusyWorker {
 public:
  BusyWorker() : worker_(BackgroundWorker::shared()) {
    job_ = worker_->submit([this](const Cancellation&) {
      began_.set_value();
      go_on_.get_future().wait();
    });
    began_.get_future().wait();
  }
  ~BusyWorker() { release(); }
  void release() {
    if (!std::exchange(released_, true)) go_on_.set_value();
  }

 private:
  std::promise<void> began_, go_on_;
  bool released_ = false;
  std::shared_ptr<BackgroundWorker> worker_;
  std::shared_ptr<BackgroundWorker::Job> job_;
};

// A program, and a limit at which more effort gives a faster plan than the first one.
class BackgroundPlans : public ::testing::Test {
 protected:
  void SetUp() override {
    cases::RandomModuleOptions shape;
    shape.gates = true;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      auto module = cases::random_module(seed, shape);
      ASSERT_NE(module, nullptr);
      arguments_ = cases::random_arguments(*module, seed);
      auto program = Program::create(std::move(module), provider(), {});
      ASSERT_TRUE(program.ok()) << program.status().to_string();
      program_ = std::move(*program);
      options_ = {};
      options_.parameters = planner::default_residency(program_->module());
      const auto unlimited = program_->plan(options_);
      const auto floor = least_floor(*program_, options_);
      ASSERT_TRUE(unlimited.ok()) << unlimited.status().to_string();
      ASSERT_TRUE(floor.ok()) << floor.status().to_string();
      floor_ = floor->bytes;
      options_.limit_bytes = (floor_ + (*unlimited)->peak_bytes) / 2;
      const auto full = plan_within(program_, options_);
      const auto first = plan_within(program_, with(Effort::first));
      ASSERT_TRUE(full.ok() && first.ok());
      EXPECT_FALSE(full->is_first);
      first_ = first->plan;
      full_ = full->plan;
      if (first->is_first && full_->predicted_seconds < first_->predicted_seconds) break;
    }
    ASSERT_LT(full_->predicted_seconds, first_->predicted_seconds);
    budget_ = memory::Budget::create(device::default_device(), options_.limit_bytes);
  }

  planner::PlanOptions with(Effort effort) const {
    planner::PlanOptions options = options_;
    options.effort = effort;
    return options;
  }
  std::shared_ptr<CurrentExecutable> create(Effort effort, double drift = 0) {
    auto made = CurrentExecutable::create(program_, with(effort), budget_, drift);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  ir::Literal run(const Executable& executable) {
    auto result = run_on_host(executable, *budget_, arguments_);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(*result) : ir::Literal();
  }

  std::shared_ptr<const Program> program_;
  std::vector<ir::Literal> arguments_;
  planner::PlanOptions options_;
  std::int64_t floor_ = 0;
  std::shared_ptr<const planner::Plan> first_, full_;
  std::shared_ptr<memory::Budget> budget_;
};

TEST_F(BackgroundPlans, ABetterPlanTakesThePlaceOfTheFirstWithTheSameBits) {
  BusyWorker busy;
  const auto current = create(Effort::background);
  const auto first = current->next();
  EXPECT_EQ(first->plan().predicted_seconds, first_->predicted_seconds);
  const ir::Literal before = run(*first);
  EXPECT_EQ(current->next(), first);
  busy.release();
  current->wait_for_plans();
  const auto second = current->next();
  EXPECT_NE(second, first);
  EXPECT_EQ(second->plan().predicted_seconds, full_->predicted_seconds);
  EXPECT_EQ(current->improvements(), 1);
  EXPECT_EQ(current->replans(), 0);
  for (const auto& each : {first, second}) {
    const Status proof = planner::check_plan(each->program().module(), each->plan());
    EXPECT_TRUE(proof.ok()) << proof.to_string();
    EXPECT_LE(each->plan().peak_bytes, options_.limit_bytes);
  }
  EXPECT_EQ(cases::compare_bits(before, run(*second)), "");
  // The old one stays usable for whoever still holds it.
  EXPECT_EQ(cases::compare_bits(before, run(*first)), "");
  EXPECT_LE(budget_->statistics().peak_bytes, options_.limit_bytes);
}

TEST_F(BackgroundPlans, OtherEffortsLeaveTheBackgroundAlone) {
  for (const Effort effort : {Effort::first, Effort::full}) {
    const auto current = create(effort);
    current->wait_for_plans();
    const double expected = (effort == Effort::first ? first_ : full_)->predicted_seconds;
    EXPECT_EQ(current->get()->plan().predicted_seconds, expected);
    EXPECT_EQ(current->improvements(), 0);
  }
  options_.limit_bytes = planner::kUnlimited;
  budget_ = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto unlimited = create(Effort::background);
  const auto only = unlimited->get();
  unlimited->wait_for_plans();
  EXPECT_EQ(unlimited->get(), only);
}

TEST_F(BackgroundPlans, WhereCodecsMayChangeBitsEffortIsFullBeforeTheFirstRun) {
  options_.remedies.lossy = true;
  const auto full = plan_within(program_, with(Effort::full));
  const auto both = plan_within(program_, with(Effort::background));
  ASSERT_TRUE(full.ok() && both.ok());
  EXPECT_FALSE(both->is_first);
  EXPECT_EQ(both->plan->predicted_seconds, full->plan->predicted_seconds);
  EXPECT_EQ(both->plan->arena_bytes, full->plan->arena_bytes);
  const auto current = create(Effort::background, 0.25);
  const auto only = current->get();
  current->wait_for_plans();
  EXPECT_EQ(current->next(), only);
}

TEST_F(BackgroundPlans, ALimitThatWasLoweredMeanwhileIsKept) {
  BusyWorker busy;
  const auto current = create(Effort::background);
  const std::int64_t lower = (floor_ + full_->peak_bytes) / 2;
  ASSERT_LT(lower, full_->peak_bytes);
  budget_->set_limit(lower);
  busy.release();
  current->wait_for_plans();
  // What has taken the first plan's place, if anything, is within the limit as it is by now.
  const auto now = current->get();
  if (current->improvements() > 0) {
    EXPECT_LE(now->plan().peak_bytes, lower);
    run(*now);
    EXPECT_LE(budget_->statistics().peak_bytes, options_.limit_bytes);
  } else {
    EXPECT_EQ(now->plan().predicted_seconds, first_->predicted_seconds);
  }
}

TEST_F(BackgroundPlans, WhatFailsInTheBackgroundLeavesTheOldPlan) {
  BusyWorker busy;
  const auto current = create(Effort::background);
  const auto first = current->get();
  // No plan keeps this.
  budget_->set_limit(floor_ / 2);
  busy.release();
  current->wait_for_plans();
  EXPECT_EQ(current->next(), first);
  EXPECT_EQ(current->improvements(), 0);
  budget_->set_limit(options_.limit_bytes);
  run(*first);
}

TEST_F(BackgroundPlans, MayBeDestroyedBeforeAndWhilePlansAreMade) {
  {
    BusyWorker busy;
    create(Effort::background);  // its job has not begun
  }
  for (int i = 0; i < 10; ++i) {
    // Another cost model's version, so that no plan is remembered.
    auto module = cases::random_module(static_cast<std::uint64_t>(i));
    auto program = Program::create(std::move(module), provider(), {});
    ASSERT_TRUE(program.ok());
    planner::PlanOptions options = with(Effort::background);
    options.parameters = planner::default_residency((*program)->module());
    const auto unlimited = (*program)->plan({options, options, {planner::kUnlimited, {}, {}}});
    ASSERT_TRUE(unlimited.ok());
    options.limit_bytes = (*unlimited)->peak_bytes * 9 / 10;
    const auto budget = memory::Budget::create(device::default_device(), options.limit_bytes);
    const auto made = CurrentExecutable::create(*program, options, budget, 0);
    if (made.ok() && i % 2 == 0) (*made)->next();
  }
}

// A report before anything was measured must not be the last word.
TEST_F(BackgroundPlans, TheExpectationIsOfWhatWasMeasuredSince) {
  const auto current = create(Effort::full, 1e9);  // times are taken, and change no plan
  const auto now = current->next();
  const planner::MeasuredCosts& costs = now->program().costs();
  ASSERT_EQ(costs.runs(), 0);
  EXPECT_EQ(current->expectation().seconds, now->plan().predicted_seconds);
  for (int i = 0; i < 3; ++i) run(*current->next());
  ASSERT_GT(costs.runs(), 0);
  EXPECT_EQ(current->expectation().seconds, costs.seconds_of(now->plan(), with(Effort::full)));
  EXPECT_NE(current->expectation().seconds, now->plan().predicted_seconds);
  EXPECT_NE(current->expectation().unlimited_seconds, now->plan().unlimited_seconds);
}

TEST_F(BackgroundPlans, ManyThreadsRunWhilePlansAreMade) {
  const auto current = create(Effort::background, 1e-9);
  const ir::Literal expected = run(*current->get());
  budget_->set_limit(4 * options_.limit_bytes);  // of four runs at once
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 8; ++i) {
        const auto executable = current->next();
        const auto result = run_on_host(*executable, *budget_, arguments_);
        if (!result.ok() || !cases::compare_bits(expected, *result).empty()) ++wrong;
        if (executable->plan().peak_bytes > 4 * options_.limit_bytes) ++wrong;
        static_cast<void>(current->expectation());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  current->wait_for_plans();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(current->improvements() + current->replans(), 1);
}

TEST_F(BackgroundPlans, CachesAndSharedPlansGiveBetterPlansOnceTheyAreThere) {
  BusyWorker busy;
  auto shared =
      SharedPlans::create(program_, with(Effort::background), with(Effort::background), budget_, 0);
  ASSERT_TRUE(shared.ok()) << shared.status().to_string();
  {
    // What of its parameters is there already does not matter here.
    auto entry = (*shared)->admit(0, {});
    ASSERT_TRUE(entry.ok()) << entry.status().to_string();
    EXPECT_EQ(entry->executable->plan().predicted_seconds, first_->predicted_seconds);
  }
  ExecutableCache cache(program_, budget_, 0, LimitedBy::question, 1);
  const auto answer = cache.find_or_plan(with(Effort::background));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->executable->plan().predicted_seconds, first_->predicted_seconds);
  busy.release();
  (*shared)->first().wait_for_plans();
  answer->current->wait_for_plans();
  auto entry = (*shared)->admit(0, {});
  ASSERT_TRUE(entry.ok()) << entry.status().to_string();
  EXPECT_EQ(entry->executable->plan().predicted_seconds, full_->predicted_seconds);
  EXPECT_EQ(cache.find_or_plan(with(Effort::background))->executable->plan().predicted_seconds,
            full_->predicted_seconds);
}

TEST(BackgroundWorker, DoesJobsInOrderOnOneThreadOfItsOwn) {
  const auto worker = BackgroundWorker::shared();
  EXPECT_EQ(BackgroundWorker::shared(), worker);
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::promise<void> done;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(worker->submit([&, i](const Cancellation&) {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
      EXPECT_TRUE(OneThread::is_in_force());
      if (i == 2) done.set_value();
    }),
              nullptr);
  }
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(threads[0], threads[2]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
  EXPECT_FALSE(OneThread::is_in_force());
}

TEST(BackgroundWorker, CancelledJobsEndOrNeverBegin) {
  const auto worker = BackgroundWorker::shared();
  std::promise<void> began;
  std::atomic<bool> ended = false, other = false;
  const auto running = worker->submit([&](const Cancellation& stop) {
    began.set_value();
    while (!stop.is_cancelled()) std::this_thread::yield();
    ended = true;
  });
  const auto waiting = worker->submit([&](const Cancellation&) { other = true; });
  began.get_future().wait();
  worker->cancel(waiting);
  worker->cancel(running);
  EXPECT_TRUE(ended);
  EXPECT_FALSE(other);
  worker->cancel(running);
}

TEST(BackgroundWorkerDeathTest, AProcessThatEndsWithAJobEndsIt) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        // As of a context that nobody destroys: reachable, so no leak.
        static auto* const held = new std::shared_ptr<BackgroundWorker>(BackgroundWorker::shared());
        static auto* const began = new std::promise<void>;
        (*held)->submit([](const Cancellation& stop) {
          began->set_value();
          while (!stop.is_cancelled()) std::this_thread::yield();
        });
        began->get_future().wait();
        std::exit(3);
      },
      ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace plimsoll::executor
