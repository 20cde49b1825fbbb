// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/recorded/joint_pack.h"
#include "benchmarks/recorded/joint_pack_recorded.h"
#include "benchmarks/recorded/recorded_step.h"

namespace plimsoll::planner {
namespace {

// A chain forward and back: op i makes storage i of a size of its own; op 2n-1-i reads what i made.
std::string packed_chain(int n, std::uint32_t seed) {
  std::mt19937 rng(seed);
  const int ops = 2 * n;
  std::ostringstream text;
  std::int64_t total = 0;
  std::ostringstream storages, tensors, steps;
  for (int i = 0; i < ops; ++i) {
    const std::int64_t bytes = 100 + static_cast<std::int64_t>(rng() % 900);
    total += bytes;
    storages << bytes << " 0 " << (i == ops - 1 ? 1 : 0) << "\n";
    tensors << i << " " << i << "\n";
    steps << 100 + rng() % 100;
    if (i == 0) {
      steps << " 0";
    } else if (i < n) {
      steps << " 1 " << i - 1;
    } else {
      steps << " 2 " << i - 1 << " " << ops - 1 - i;
    }
    steps << " 1 " << i << " 1\n";
  }
  text << total << " " << ops << " " << ops << " " << ops << " 1\n"
       << storages.str() << tensors.str() << steps.str() << ops - 1 << "\n";
  return text.str();
}

RecordedStep recorded(const std::string& text) {
  auto step = parse_recorded_step(text, "step");
  EXPECT_TRUE(step.ok()) << step.status().to_string();
  return std::move(*step);
}

TEST(JointPack, WhatLivesTogetherLiesApartBelowTheLimit) {
  for (std::uint32_t seed = 0; seed < 2; ++seed) {
    const RecordedStep step = recorded(packed_chain(24, seed));
    Schedule once;
    for (const OpId op : step.problem.ops.ids()) once.push_back(op);
    const std::int64_t peak = evaluate(step.problem, once).arena_peak;
    for (const int percent : {70, 50, 40}) {
      const std::int64_t limit = peak * percent / 100;
      SearchEffort effort;
      effort.scale = 0.05;
      const auto found = search_addressed_schedule(step.problem, limit, 0, 1, effort);
      ASSERT_TRUE(found) << seed << " " << percent;
      EXPECT_TRUE(is_valid(step.problem, found->schedule));
      EXPECT_LE(found->packing.height, limit);
      const auto lives = residencies(step.problem, found->schedule);
      ASSERT_EQ(lives.size(), found->packing.offsets.size());
      for (std::size_t i = 0; i < lives.size(); ++i) {
        EXPECT_LE(found->packing.offsets[i] + lives[i].size, limit);
        for (std::size_t k = 0; k < i; ++k) {
          if (lives[i].size == 0 || lives[k].size == 0) continue;
          if (lives[i].lower >= lives[k].upper || lives[k].lower >= lives[i].upper) continue;
          const auto a = found->packing.offsets[i], b = found->packing.offsets[k];
          EXPECT_TRUE(a + lives[i].size <= b || b + lives[k].size <= a) << i << " and " << k;
        }
      }
    }
  }
}

// A packer that wants a part more than the bytes: schedules have to evict more than their peak
// says.
TEST(JointPack, GivesUpMoreWhereThePackingIsTooHigh) {
  const RecordedStep step = recorded(packed_chain(24, 9));
  Schedule once;
  for (const OpId op : step.problem.ops.ids()) once.push_back(op);
  const std::int64_t limit = evaluate(step.problem, once).arena_peak * 6 / 10;
  SearchEffort effort;
  effort.scale = 0.05;
  const auto start = search_schedule(step.problem, limit, 0, effort);
  ASSERT_TRUE(start);
  const auto check = [&](const Schedule& schedule, int) {
    std::vector<std::int64_t> profile;
    const Evaluation found = evaluate(step.problem, schedule, &profile);
    AddressCheck result;
    result.height = found.arena_peak + found.arena_peak / 8;
    for (std::size_t t = 0; t < profile.size(); ++t) {
      if (profile[t] + profile[t] / 8 <= limit) continue;
      result.over.emplace_back(static_cast<std::int32_t>(t), static_cast<std::int32_t>(t) + 1);
    }
    return result;
  };
  ASSERT_GT(check(*start, 0).height, limit);
  const auto fitting = fit_addresses(step.problem, *start, limit, 0, check, 20);
  ASSERT_TRUE(fitting);
  EXPECT_LE(check(*fitting, 0).height, limit);
  EXPECT_TRUE(is_valid(step.problem, *fitting));
}

TEST(JointPack, EveryMadeStorageIsWrittenWithItsPlace) {
  const RecordedStep step = recorded(packed_chain(12, 3));
  SearchEffort effort;
  effort.scale = 0.05;
  Schedule once;
  for (const OpId op : step.problem.ops.ids()) once.push_back(op);
  const std::int64_t limit = evaluate(step.problem, once).arena_peak / 2;
  const auto plan = plan_recorded_step_in_addresses(step, limit, effort);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_LE(plan->plan.peak_bytes, limit);
  std::istringstream text(addressed_schedule_text(step, *plan));
  std::string line;
  int made = 0;
  while (std::getline(text, line)) {
    if (line.front() != 'c') continue;
    const std::string op = line.substr(2, line.find(' ', 2) - 2);
    EXPECT_EQ(line.find(" " + op + "@"), line.rfind(' ')) << line;
    ++made;
  }
  EXPECT_EQ(made, static_cast<int>(plan->plan.schedule.size()) - 1);
}

}  // namespace
}  // namespace plimsoll::planner
