// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/shared_plans.h"
#include "runtime/device/devices.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// Values that all wait for the end, each cheap to compute again.
std::string chain_text(int length) {
  const std::string type = "f32[32,32]";
  std::string text =
      "HloModule chain, is_scheduled=true\nENTRY e {\n  v0 = " + type + " parameter(0)\n";
  const auto line = [&](const std::string& name, const std::string& operation) {
    text += "  " + name + " = " + type + " " + operation + "\n";
  };
  for (int i = 1; i <= length; ++i) {
    line("v" + std::to_string(i), "tanh(v" + std::to_string(i - 1) + ")");
  }
  std::string last = "v" + std::to_string(length);
  for (int i = length - 1; i >= 0; --i) {
    const std::string name = "r" + std::to_string(i);
    line(name, "dot(" + last + ", v" + std::to_string(i) +
                   "), lhs_contracting_dims={1}, rhs_contracting_dims={0}");
    last = name;
  }
  line("ROOT out", "negate(" + last + ")");
  return text + "}\n";
}

class SharedPlansTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ir::parse_module(chain_text(12), "chain");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    auto program = Program::create(std::move(*module), provider(), false);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = std::move(*program);
    const auto unlimited = program_->plan({});
    ASSERT_TRUE(unlimited.ok());
    peak_ = (*unlimited)->peak_bytes;
    planner::PlanOptions options;
    options.parameters = planner::default_residency(program_->module());
    const auto floor = least_floor(*program_, options);
    ASSERT_TRUE(floor.ok());
    floor_ = floor->bytes;
    ASSERT_LT(floor_, peak_ * 2 / 3);
    std::vector<float> values(1024);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.002F * static_cast<float>(i) - 1;
    input_ = ir::Literal::from_bytes(ir::Shape(ir::DType::f32, {32, 32}),
                                     std::as_bytes(std::span<const float>(values)));
  }

  void make(std::int64_t limit) {
    budget_ = memory::Budget::create(device::default_device(), limit);
    auto plans = SharedPlans::create(program_, {}, {}, budget_, 0);
    ASSERT_TRUE(plans.ok()) << plans.status().to_string();
    plans_ = std::move(*plans);
  }
  SharedPlans::Entry admit() {
    auto entry = plans_->admit(0, {});
    EXPECT_TRUE(entry.ok()) << entry.status().to_string();
    return entry.ok() ? std::move(*entry) : SharedPlans::Entry();
  }
  ir::Literal run(SharedPlans::Entry& entry) {
    const RunOptions options{&entry.admitted, {}};
    auto result = run_on_host(*entry.executable, *budget_, std::span(&input_, 1), options);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(*result) : ir::Literal();
  }

  std::shared_ptr<const Program> program_;
  std::int64_t peak_ = 0, floor_ = 0;
  std::shared_ptr<memory::Budget> budget_;
  std::shared_ptr<SharedPlans> plans_;
  ir::Literal input_;
};

TEST_F(SharedPlansTest, RunsBesideEachOtherTakeSlowerPlansAndTheSameBits) {
  make(peak_ * 2 + floor_ / 2);
  SharedPlans::Entry first = admit(), second = admit();
  EXPECT_EQ(first.executable, second.executable);
  EXPECT_EQ(plans_->levels().size(), 1U);
  const ir::Literal expected = run(first);
  first = {};
  // Less than a peak is left for the third once another one has taken most of it.
  auto taken = budget_->admission().admit({peak_ / 2, 0, 0}, "other");
  ASSERT_TRUE(taken.ok());
  SharedPlans::Entry third = admit();
  const planner::Plan& plan = third.executable->plan();
  EXPECT_LT(plan.peak_bytes, peak_);
  EXPECT_LE(plan.peak_bytes, peak_ / 2 + floor_ / 2);
  EXPECT_GE(plan.predicted_seconds, second.executable->plan().predicted_seconds);
  EXPECT_TRUE(run(third) == expected);
  EXPECT_TRUE(run(second) == expected);
}

TEST_F(SharedPlansTest, PlansOnlyWhatIsAskedForAndKeepsIt) {
  make(peak_);
  EXPECT_EQ(plans_->levels().size(), 1U);
  auto taken = budget_->admission().admit({peak_ - floor_, 0, 0}, "other");
  const auto at_floor = admit().executable;
  const auto planned = [&] {
    int count = 0;
    for (const SharedPlans::Level& level : plans_->levels()) count += level.executable != nullptr;
    return count;
  };
  EXPECT_EQ(planned(), 2);
  EXPECT_EQ(admit().executable, at_floor);
  EXPECT_EQ(planned(), 2);
  const auto levels = plans_->levels();
  EXPECT_EQ(levels.back().limit_bytes, floor_);
  for (std::size_t i = 1; i < levels.size(); ++i) {
    EXPECT_LT(levels[i].limit_bytes, levels[i - 1].limit_bytes);
    EXPECT_GE(levels[i].limit_bytes, levels[i - 1].limit_bytes * 4 / 5);
  }
}

TEST_F(SharedPlansTest, EveryLevelHasTheSameBitsAndFits) {
  make(planner::kUnlimited);
  SharedPlans::Entry free = admit();
  const ir::Literal expected = run(free);
  free = {};
  for (std::int64_t limit = peak_; limit >= floor_; limit -= (peak_ - floor_) / 7) {
    budget_->set_limit(limit);
    budget_->reset_peak();
    SharedPlans::Entry entry = admit();
    EXPECT_TRUE(run(entry) == expected) << limit;
    EXPECT_EQ(budget_->statistics().peak_bytes, entry.executable->plan().peak_bytes);
    EXPECT_LE(entry.executable->plan().peak_bytes, limit);
  }
  budget_->set_limit(floor_ - 1);
  const auto refused = plans_->admit(0, {});
  ASSERT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_EQ(refused.status().shortage()->floor_bytes, floor_);
  EXPECT_EQ(budget_->statistics().used_bytes, 0);
  EXPECT_EQ(budget_->statistics().reserved_bytes, 0);
}

TEST_F(SharedPlansTest, ARaisedLimitGetsThePlanThatNothingLimits) {
  make(floor_);
  EXPECT_LE(admit().executable->plan().peak_bytes, floor_);
  budget_->set_limit(planner::kUnlimited);
  const SharedPlans::Entry entry = admit();
  EXPECT_EQ(entry.executable->plan().peak_bytes, peak_);
  EXPECT_EQ(entry.executable->plan().predicted_seconds, entry.executable->plan().unlimited_seconds);
}

TEST_F(SharedPlansTest, NoRunTakesMoreThanItsOwnLimit) {
  budget_ = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const planner::Question question{(peak_ + floor_) / 2, {}, {}};
  auto plans = SharedPlans::create(program_, {}, question, budget_, 0);
  ASSERT_TRUE(plans.ok());
  const auto entry = (*plans)->admit(0, {});
  ASSERT_TRUE(entry.ok());
  EXPECT_LE(entry->executable->plan().peak_bytes, question.limit_bytes);
}

TEST_F(SharedPlansTest, AStopIsSeenBetweenSteps) {
  make(peak_);
  SharedPlans::Entry entry = admit();
  RunOptions options{&entry.admitted, {}};
  options.stop.cancellation = std::make_shared<Cancellation>();
  options.stop.cancellation->cancel();
  const auto result = run_on_host(*entry.executable, *budget_, std::span(&input_, 1), options);
  EXPECT_EQ(result.status().code(), StatusCode::cancelled);
  EXPECT_EQ(budget_->statistics().used_bytes, 0);
  entry = {};
  EXPECT_EQ(budget_->statistics().reserved_bytes, 0);
}

TEST_F(SharedPlansTest, ALargeRunGetsInAmongAStreamOfSmallOnes) {
  make(peak_);
  const std::int64_t unit = peak_ / 8;
  std::vector<memory::Admitted> small;
  const auto come = [&] {
    auto one = budget_->admission().admit({unit, 0, 0}, "small", {}, false);
    if (!one.ok()) return false;
    small.push_back(std::move(*one));
    return true;
  };
  // So many are always there that not even the floor fits beside them.
  const std::size_t many = static_cast<std::size_t>((peak_ - floor_) / unit) + 1;
  while (small.size() < many) ASSERT_TRUE(come());
  std::optional<SharedPlans::Entry> large;
  std::thread waiting([&] { large.emplace(admit()); });
  while (budget_->admission().statistics().waiting == 0) std::this_thread::yield();
  int passed = 0;
  while (come()) {
    ++passed;
    small.erase(small.begin());
    ASSERT_LE(passed, memory::Admission::kMostPasses);
  }
  EXPECT_EQ(passed, memory::Admission::kMostPasses);
  small.clear();
  waiting.join();
  EXPECT_EQ(large->admitted.passed(), passed);
}

}  // namespace
}  // namespace plimsoll::executor
