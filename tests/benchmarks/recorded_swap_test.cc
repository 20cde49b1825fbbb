// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/recorded/recorded_swap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "benchmarks/replayer/replay.h"
#include "tests/planner/recorded_graphs.h"

namespace plimsoll {
namespace {

// `layers` ops of 1 ms that make 1 MB each from the one before, and as many that read them from the
// last to the first.
std::string there_and_back(int layers) {
  const auto n = [](int value) { return std::to_string(value); };
  const int count = 2 * layers;
  std::string text = n(layers * 1000000 + 2000000) + " " + n(count + 1) + " " + n(count + 1) + " " +
                     n(count) + " 1\n1000 1 0\n";
  for (int i = 1; i <= count; ++i) text += i == count ? "1000000 0 1\n" : "1000000 0 0\n";
  for (int i = 0; i <= count; ++i) text += n(i) + " " + n(i - 1) + "\n";
  for (int i = 0; i < count; ++i) {
    const bool back = i > layers;
    text += "1000000 " + std::string(back ? "2 " : "1 ") + n(i) + " " +
            (back ? n(count - i) + " " : "") + "1 " + n(i + 1) + " 1\n";
  }
  return text + n(count) + "\n";
}

TEST(RecordedSwap, TakesTheTimeAndBytesThatTheReplayerCounts) {
  const std::string text = there_and_back(12);
  const auto step = planner::parse_recorded_step(text, "there_and_back");
  ASSERT_TRUE(step.ok()) << step.status().to_string();
  const auto model = replayer::parse_model(text, "there_and_back");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  constexpr std::int64_t kSpeed = 1'000'000'000;  // a copy takes as long as an op, and a bit
  planner::Tier host;
  host.bytes = planner::kUnlimited;
  host.in_bytes_per_second = host.out_bytes_per_second = static_cast<double>(kSpeed);
  for (const std::int64_t limit : {11'001'000, 8'001'000}) {
    const auto plan = planner::plan_recorded_swaps(*step, limit, {}, host);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    EXPECT_GT(plan->swapped_bytes, 0);
    const auto replay = replayer::replay(*model, plan->actions, {limit, false, kSpeed});
    ASSERT_TRUE(replay.ok()) << replay.status().to_string();
    EXPECT_EQ(replay->peak_bytes, plan->plan.peak_bytes);
    EXPECT_EQ(replay->swapped_bytes, plan->swapped_bytes);
    EXPECT_EQ(replay->nanoseconds, std::llround(plan->plan.predicted_seconds * 1e9));
    EXPECT_LE(plan->plan.lower_bound_seconds, plan->plan.predicted_seconds);
  }
}

TEST(RecordedSwap, PlansWithViewsReplayAtEveryLimitAndHostMemory) {
  // Copies take 10 us and about 1 us, ops 1 to 9 us.
  constexpr std::int64_t kSpeed = 100'000'000;
  planner::SearchEffort effort;
  effort.level = planner::SearchEffort::Level::quick;
  int with_copies = 0;
  for (std::uint32_t seed = 1; seed <= 2; ++seed) {
    const std::string text = planner::recorded_chain(14, seed, "00");
    const auto step = planner::parse_recorded_step(text, "chain");
    ASSERT_TRUE(step.ok()) << step.status().to_string();
    const auto model = replayer::parse_model(text, "chain");
    ASSERT_TRUE(model.ok()) << model.status().to_string();
    const auto all = planner::plan_recorded_step(*step, planner::kUnlimited, effort);
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    for (const int percent : {50, 70}) {
      const std::int64_t limit = all->unlimited_peak_bytes * percent / 100;
      double before = std::numeric_limits<double>::infinity();
      for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{200}, std::int64_t{400},
                                       std::int64_t{800}, planner::kUnlimited}) {
        planner::Tier host;
        host.bytes = bytes;
        host.in_bytes_per_second = host.out_bytes_per_second = static_cast<double>(kSpeed);
        const auto plan = planner::plan_recorded_swaps(*step, limit, effort, host);
        if (!plan.ok() && before == std::numeric_limits<double>::infinity()) continue;
        ASSERT_TRUE(plan.ok()) << plan.status().to_string();
        const auto replay = replayer::replay(*model, plan->actions, {limit, false, kSpeed, bytes});
        ASSERT_TRUE(replay.ok()) << "seed " << seed << ": " << replay.status().to_string();
        EXPECT_EQ(replay->nanoseconds, std::llround(plan->plan.predicted_seconds * 1e9));
        EXPECT_EQ(replay->peak_bytes, plan->plan.peak_bytes);
        EXPECT_LE(plan->plan.predicted_seconds, before);
        before = plan->plan.predicted_seconds;
        with_copies += replay->swapped_bytes > 0;
      }
    }
  }
  EXPECT_GE(with_copies, 8);
}

TEST(RecordedSwap, MoreHostMemoryNeverGivesASlowerPlan) {
  const std::string text = there_and_back(12);
  const auto step = planner::parse_recorded_step(text, "there_and_back");
  ASSERT_TRUE(step.ok()) << step.status().to_string();
  const auto model = replayer::parse_model(text, "there_and_back");
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  constexpr std::int64_t kSpeed = 1'500'000'000, kLimit = 7'001'000;
  planner::SearchEffort effort;
  effort.level = planner::SearchEffort::Level::quick;
  double before = std::numeric_limits<double>::infinity();
  int faster = 0;
  for (std::int64_t bytes = 0; bytes <= 13'000'000; bytes += 1'000'000) {
    planner::Tier host;
    host.bytes = bytes;
    host.in_bytes_per_second = host.out_bytes_per_second = static_cast<double>(kSpeed);
    const auto plan = planner::plan_recorded_swaps(*step, kLimit, effort, host);
    ASSERT_TRUE(plan.ok()) << plan.status().to_string();
    const auto replay = replayer::replay(*model, plan->actions, {kLimit, false, kSpeed, bytes});
    ASSERT_TRUE(replay.ok()) << replay.status().to_string();
    EXPECT_LE(plan->plan.predicted_seconds, before) << bytes;
    faster += plan->plan.predicted_seconds < before;
    before = plan->plan.predicted_seconds;
  }
  EXPECT_GE(faster, 3);
}

}  // namespace
}  // namespace plimsoll
