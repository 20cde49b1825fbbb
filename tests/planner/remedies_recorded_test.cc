// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/recorded/recorded_swap.h"

namespace plimsoll::planner {
namespace {

constexpr std::int64_t kBytes = 1'000'000;
constexpr std::int64_t kNanoseconds = 100'000;

// `n` ops forward, each from the one before, and `n` backward, each from the one before and a
// forward result, last first. Storage 0 is the constant input, storage i what op i - 1 makes.
std::string chain(int n) {
  std::ostringstream text;
  const int ops = 2 * n;
  text << kBytes * (n + 2) << ' ' << ops + 1 << ' ' << ops + 1 << ' ' << ops << " 1\n";
  for (int s = 0; s <= ops; ++s) text << kBytes << ' ' << (s == 0) << ' ' << (s == ops) << '\n';
  for (int t = 0; t <= ops; ++t) text << t << ' ' << t - 1 << '\n';
  for (int op = 0; op < ops; ++op) {
    text << kNanoseconds;
    if (op < n) {
      text << " 1 " << op;
    } else {
      text << " 2 " << op << ' ' << ops - 1 - op;
    }
    text << " 1 " << op + 1 << " 1\n";
  }
  text << ops << '\n';
  return text.str();
}

struct Replayed {
  std::string error;
  std::int64_t peak = 0;
  double seconds = 0;
  int computes = 0, copies = 0;
};

// Knows the chain's ops and what the actions mean, and nothing of planning.
Replayed replay(int n, const std::string& actions, double bytes_per_second, double latency) {
  Replayed r;
  const int ops = 2 * n;
  std::set<int> resident{0}, incoming, on_host;
  std::map<int, double> leaving;  // storage -> end of its copy out
  std::map<int, double> arriving;
  double now = 0, out_free = 0, in_free = 0;
  const double transfer = latency + static_cast<double>(kBytes) / bytes_per_second;
  const auto fail = [&](const std::string& line) {
    if (r.error.empty()) r.error = line;
  };
  std::istringstream lines(actions);
  for (std::string line; std::getline(lines, line);) {
    const int number = std::stoi(line.substr(2));
    switch (line[0]) {
      case 'c': {
        std::vector<int> reads{number};
        if (number >= n) reads.push_back(ops - 1 - number);
        for (const int s : reads) {
          if (!resident.contains(s)) fail(line + ": an argument is not there");
        }
        resident.insert(number + 1);
        if (leaving.contains(number + 1)) fail(line + ": overwrites what is copied out");
        now += kNanoseconds * 1e-9;
        ++r.computes;
        break;
      }
      case 'f':
        if (resident.erase(number) == 0) fail(line + ": is not there");
        if (leaving.contains(number)) fail(line + ": is still copied out");
        break;
      case 'o':
        if (!resident.contains(number)) fail(line + ": is not there");
        out_free = std::max(now, out_free) + transfer;
        leaving[number] = out_free;
        ++r.copies;
        break;
      case 'i':
        if (!on_host.contains(number)) fail(line + ": was not copied out");
        if (resident.contains(number)) fail(line + ": is there");
        incoming.insert(number);
        in_free = std::max(now, in_free) + transfer;
        arriving[number] = in_free;
        break;
      case 'w':
        if (leaving.contains(number)) {
          now = std::max(now, leaving[number]);
          leaving.erase(number);
          on_host.insert(number);
        } else if (incoming.contains(number)) {
          now = std::max(now, arriving[number]);
          incoming.erase(number);
          resident.insert(number);
        } else {
          fail(line + ": waits for nothing");
        }
        break;
      default:
        fail(line);
    }
    r.peak =
        std::max(r.peak, kBytes * static_cast<std::int64_t>(resident.size() + incoming.size()));
  }
  if (!resident.contains(ops)) fail("the result is not there");
  if (!leaving.empty() || !incoming.empty()) fail("a copy that nobody waits for");
  r.seconds = now;
  return r;
}

TEST(RecordedSwaps, ActionsDoWhatThePlanSays) {
  constexpr int kLength = 24;
  const auto step = parse_recorded_step(chain(kLength), "chain");
  ASSERT_TRUE(step.ok()) << step.status().to_string();
  SearchEffort effort;
  effort.level = SearchEffort::Level::quick;
  int faster = 0, copied = 0;
  for (const int ratio : {30, 50, 70}) {
    for (const double speed : {4e9, 10e9, 40e9}) {
      const std::int64_t limit = step->unlimited_peak * ratio / 100;
      Tier tier;
      tier.bytes = kUnlimited;
      tier.in_bytes_per_second = tier.out_bytes_per_second = speed;
      const auto plan = plan_recorded_swaps(*step, limit, effort, tier);
      ASSERT_TRUE(plan.ok()) << plan.status().to_string();
      const Replayed r = replay(kLength, plan->actions, speed, tier.latency_seconds);
      EXPECT_EQ(r.error, "");
      EXPECT_LE(r.peak, limit);
      EXPECT_LE(r.peak, plan->plan.peak_bytes);
      EXPECT_NEAR(r.seconds, plan->plan.predicted_seconds, 1e-9);
      EXPECT_EQ(plan->swapped_bytes, kBytes * r.copies);
      const auto alone = plan_recorded_step(*step, limit, effort);
      ASSERT_TRUE(alone.ok());
      EXPECT_LE(plan->plan.predicted_seconds, alone->predicted_seconds);
      faster += plan->plan.predicted_seconds < 0.99 * alone->predicted_seconds;
      copied += r.copies;
    }
  }
  EXPECT_GE(faster, 6);
  EXPECT_GT(copied, 20);
}

}  // namespace
}  // namespace plimsoll::planner
