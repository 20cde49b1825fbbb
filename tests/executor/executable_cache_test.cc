// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/executable_cache.h"

#include <gtest/gtest.h>

#include "runtime/device/devices.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/programs.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

using planner::ParameterResidency;

class ExecutableCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto module = ir::parse_module(cases::kTwoWaitForOne, "m");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    auto program = Program::create(std::move(*module), provider(), false);
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = std::move(*program);
    const auto unlimited = program_->plan({});
    ASSERT_TRUE(unlimited.ok());
    peak_ = (*unlimited)->peak_bytes;
    budget_ = memory::Budget::create(device::default_device(), planner::kUnlimited);
  }

  ExecutableCache make(std::size_t most = 8) {
    return ExecutableCache(program_, budget_, 0, LimitedBy::question, most);
  }
  static planner::PlanOptions question(
      std::int64_t limit, ParameterResidency residency = ParameterResidency::resident) {
    return {{}, {}, {limit, {residency}, {}}};
  }

  std::shared_ptr<const Program> program_;
  std::shared_ptr<memory::Budget> budget_;
  std::int64_t peak_ = 0;
};

TEST_F(ExecutableCacheTest, AnswersAQuestionAgainWithoutPlanning) {
  ExecutableCache cache = make();
  const auto first = cache.find_or_plan(question(peak_ - 4096));
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_TRUE(first->planned);
  EXPECT_LE(first->executable->plan().peak_bytes, peak_ - 4096);
  const auto again = cache.find_or_plan(question(peak_ - 4096));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->planned);
  EXPECT_EQ(again->executable, first->executable);
}

TEST_F(ExecutableCacheTest, APlanThatPaysNothingServesEveryLimitAboveItsPeak) {
  ExecutableCache cache = make();
  const auto unlimited = cache.find_or_plan(question(planner::kUnlimited));
  ASSERT_TRUE(unlimited.ok());
  const auto at_peak = cache.find_or_plan(question(peak_));
  ASSERT_TRUE(at_peak.ok());
  EXPECT_EQ(at_peak->executable, unlimited->executable);
  const auto below = cache.find_or_plan(question(peak_ - 4096));
  ASSERT_TRUE(below.ok());
  EXPECT_TRUE(below->planned);
  // With more memory there is a faster one than that for little.
  const auto above = cache.find_or_plan(question(peak_ + 4096));
  ASSERT_TRUE(above.ok());
  EXPECT_EQ(above->executable, unlimited->executable);
}

TEST_F(ExecutableCacheTest, OtherParametersAreAnotherQuestion) {
  ExecutableCache cache = make();
  ASSERT_TRUE(cache.plan(question(peak_)).ok());
  const ParameterResidency resident[] = {ParameterResidency::resident};
  const ParameterResidency host[] = {ParameterResidency::host};
  EXPECT_NE(cache.find(peak_, resident), nullptr);
  EXPECT_EQ(cache.find(peak_, host), nullptr);
  EXPECT_EQ(cache.find(peak_ + 1, resident), nullptr);
  const auto other = cache.find_or_plan(question(peak_ * 2, ParameterResidency::host));
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_TRUE(other->planned);
  EXPECT_EQ(other->executable->residency(0), ParameterResidency::host);
}

TEST_F(ExecutableCacheTest, KeepsWhatWasPlannedLast) {
  ExecutableCache cache = make(2);
  const ParameterResidency resident[] = {ParameterResidency::resident};
  for (const std::int64_t more : {0, 1, 2}) ASSERT_TRUE(cache.plan(question(peak_ + more)).ok());
  EXPECT_EQ(cache.find(peak_, resident), nullptr);
  EXPECT_NE(cache.find(peak_ + 1, resident), nullptr);
  EXPECT_NE(cache.find(peak_ + 2, resident), nullptr);
}

}  // namespace
}  // namespace plimsoll::executor
