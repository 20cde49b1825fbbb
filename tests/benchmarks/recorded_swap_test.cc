// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/recorded_swap.h"

#include <gtest/gtest.h>

#include <string>

#include "benchmarks/replayer/replay.h"

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
    // Each copy counts up to a nanosecond more.
    EXPECT_NEAR(static_cast<double>(replay->nanoseconds), plan->plan.predicted_seconds * 1e9, 50);
  }
}

}  // namespace
}  // namespace plimsoll
