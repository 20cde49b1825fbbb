// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/recorded/recorded_plan.h"
#include "benchmarks/recorded/recorded_step.h"
#include "tests/planner/recorded_graphs.h"

namespace plimsoll::planner {
namespace {

// Knows nothing but the text's accounting.
class Replayer {
 public:
  explicit Replayer(const std::string& text) {
    std::istringstream in(text);
    std::int64_t peak, storages, tensors, ops, constants;
    in >> peak >> storages >> tensors >> ops >> constants;
    for (std::int64_t i = 0; i < storages; ++i) {
      std::int64_t bytes, constant, held;
      in >> bytes >> constant >> held;
      bytes_.push_back(bytes);
      resident_.push_back(constant == 1);
      if (constant == 1) now_ += bytes;
    }
    for (std::int64_t i = 0; i < tensors; ++i) {
      std::int64_t storage, producer;
      in >> storage >> producer;
      storage_.push_back(static_cast<std::size_t>(storage));
      defined_.push_back(producer < 0);
    }
    for (std::int64_t i = 0; i < ops; ++i) {
      Op op;
      std::size_t arguments, outputs;
      in >> op.time >> arguments;
      op.arguments.resize(arguments);
      for (auto& a : op.arguments) in >> a;
      in >> outputs;
      op.outputs.resize(outputs);
      for (auto& [tensor, fresh] : op.outputs) in >> tensor >> fresh;
      ops_.push_back(op);
    }
    for (std::size_t t; in >> t;) held_.push_back(t);
  }

  // False when an action breaks a rule.
  bool run(const std::string& actions) {
    std::istringstream in(actions);
    char what;
    std::size_t which;
    peak_ = now_;
    while (in >> what >> which) {
      if (what == 'c' ? !compute(which) : !evict(which)) return false;
    }
    return std::all_of(held_.begin(), held_.end(), [&](std::size_t t) { return there(t); });
  }

  std::int64_t peak() const { return peak_; }
  std::int64_t time() const { return time_; }

 private:
  struct Op {
    std::int64_t time = 0;
    std::vector<std::size_t> arguments;
    std::vector<std::pair<std::size_t, int>> outputs;
  };

  bool there(std::size_t t) const { return defined_[t] && resident_[storage_[t]]; }

  bool compute(std::size_t which) {
    const Op& op = ops_[which];
    for (const std::size_t a : op.arguments) {
      if (!there(a)) return false;
    }
    std::int64_t again = 0;
    for (const auto& [t, fresh] : op.outputs) {
      defined_[t] = true;
      if (fresh == 0) continue;
      now_ += bytes_[storage_[t]];
      if (resident_[storage_[t]]) again += bytes_[storage_[t]];
      resident_[storage_[t]] = true;
    }
    peak_ = std::max(peak_, now_);
    now_ -= again;
    time_ += op.time;
    return true;
  }

  bool evict(std::size_t s) {
    if (!resident_[s]) return false;
    resident_[s] = false;
    now_ -= bytes_[s];
    for (std::size_t t = 0; t < storage_.size(); ++t) {
      if (storage_[t] == s) defined_[t] = false;
    }
    return true;
  }

  std::vector<std::int64_t> bytes_;
  std::vector<bool> resident_, defined_;
  std::vector<std::size_t> storage_, held_;
  std::vector<Op> ops_;
  std::int64_t now_ = 0, peak_ = 0, time_ = 0;
};

RecordedStep parsed(const std::string& text) {
  auto step = parse_recorded_step(text, "step");
  EXPECT_TRUE(step.ok()) << step.status().to_string();
  return std::move(*step);
}

TEST(RecordedStep, TellsItselfFromAProgram) {
  EXPECT_TRUE(is_recorded_step("1 2 3 4 5\n"));
  EXPECT_TRUE(is_recorded_step("-1 x\n"));
  EXPECT_FALSE(is_recorded_step("HloModule m\n"));
  EXPECT_FALSE(is_recorded_step(""));
}

TEST(RecordedStep, NamesTheLineThatIsWrong) {
  const struct {
    const char* text;
    const char* place;
    const char* what;
  } cases[] = {
      {"1 2 3 4\n", "f:1:", "5"},
      {"1 1 1 1 x\n", "f:1:", "not a whole number"},
      {"0 1 1 1 0\n", "f:1:", "peak is 0"},
      {"8 1 1 1 0\n8 0\n", "f:2:", "a storage is"},
      {"8 1 1 1 0\n8 0 2\n", "f:2:", "0 or 1"},
      {"8 1 1 1 0\n8 0 0\n0 0\n5 0 1 0 2\n", "f:4:", "is_fresh"},
      {"8 1 1 1 0\n8 0 0\n1 0\n", "f:3:", "no storage 1"},
      {"8 1 1 1 0\n8 0 0\n0 3\n", "f:3:", "no op 3"},
      {"8 1 1 1 0\n8 0 0\n0 -1\n", "f:3:", "nothing makes"},
      {"8 1 1 1 0\n8 0 0\n0 0\n5 1 0 0\n", "f:4:", "before op 0 makes it"},
      {"8 1 1 1 0\n8 0 0\n0 0\n5 0 1 0\n", "f:4:", "an op is"},
      {"8 1 1 1 0\n8 0 0\n0 0\n5 0 1 0 0\n", "f:4:", "view of no argument"},
      {"8 1 1 1 0\n8 0 0\n0 0\n", "f:3:", "ends where an op"},
      {"8 1 1 1 1\n8 0 0\n0 0\n5 0 1 0 1\n7\n", "f:5:", "no tensor 7"},
      {"8 1 1 1 1\n8 0 0\n0 0\n5 0 1 0 1\n", "f:4:", "0 tensors are held"},
      {"8 1 1 1 1\n8 0 0\n0 0\n5 0 1 0 1\n0\n0\n", "f:6:", "2 tensors are held"},
  };
  for (const auto& c : cases) {
    const auto step = parse_recorded_step(c.text, "f");
    ASSERT_FALSE(step.ok()) << c.text;
    EXPECT_EQ(step.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(step.status().message().find(c.place), std::string::npos) << step.status().message();
    EXPECT_NE(step.status().message().find(c.what), std::string::npos) << step.status().message();
  }
}

TEST(RecordedStep, KeepingAllReplaysToTheSamePeakAndTime) {
  const std::string text = recorded_chain(12, 3);
  const RecordedStep step = parsed(text);
  Schedule once = each_once(step.problem);
  Replayer replayer(text);
  ASSERT_TRUE(replayer.run(schedule_text(step, once)));
  const RecordedCost cost = recorded_cost(step, once);
  EXPECT_EQ(replayer.peak(), cost.peak_bytes);
  EXPECT_EQ(replayer.time(), cost.nanoseconds);
  EXPECT_EQ(replayer.time(), step.total_nanoseconds);
}

TEST(RecordedPlan, ReplaysWithinEveryLimitAtThePredictedTime) {
  for (std::uint32_t seed = 0; seed < 6; ++seed) {
    const std::string text = recorded_chain(8 + 4 * static_cast<int>(seed), seed);
    const RecordedStep step = parsed(text);
    const auto unlimited = plan_recorded_step(step, kUnlimited, {});
    ASSERT_TRUE(unlimited.ok());
    EXPECT_EQ(unlimited->overhead, 0);
    int found = 0;
    for (const int percent : {90, 70, 50, 40, 30, 20}) {
      const std::int64_t limit = unlimited->unlimited_peak_bytes * percent / 100;
      SearchEffort effort;
      effort.scale = 0.03;
      effort.reorder = seed % 2 == 1;
      const auto plan = plan_recorded_step(step, limit, effort);
      if (!plan.ok()) {
        EXPECT_EQ(plan.status().code(), StatusCode::resource_exhausted);
        continue;
      }
      ++found;
      Replayer replayer(text);
      ASSERT_TRUE(replayer.run(schedule_text(step, plan->schedule))) << "seed " << seed;
      EXPECT_LE(replayer.peak(), limit);
      EXPECT_EQ(replayer.peak(), plan->peak_bytes);
      EXPECT_DOUBLE_EQ(static_cast<double>(replayer.time()) * 1e-9, plan->predicted_seconds);
      EXPECT_LE(plan->lower_bound_seconds, plan->predicted_seconds * 1.000001);
    }
    EXPECT_GE(found, 3) << "seed " << seed;
  }
}

TEST(RecordedPlan, IsNeverSlowerThanAPlanForASmallerLimitThatItIsGiven) {
  int helped = 0;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    const RecordedStep step = parsed(recorded_chain(40, seed));
    const auto unlimited = plan_recorded_step(step, kUnlimited, {});
    ASSERT_TRUE(unlimited.ok());
    const std::int64_t least = unlimited->unlimited_peak_bytes * 35 / 100;
    SearchEffort effort;
    effort.scale = 0.05;
    effort.reorder = true;
    const auto smaller = plan_recorded_step(step, least, effort);
    ASSERT_TRUE(smaller.ok());
    effort.level = SearchEffort::Level::quick;
    const auto alone = plan_recorded_step(step, least + 1, effort);
    const auto given =
        plan_recorded_step(step, least + 1, effort, Policy::default_, {&smaller->schedule, 1});
    ASSERT_TRUE(alone.ok() && given.ok());
    helped += alone->overhead > smaller->overhead;
    EXPECT_LE(given->overhead, smaller->overhead);
  }
  // Else nothing was asked of it.
  EXPECT_GT(helped, 0);
}

TEST(RecordedPlan, RefusesWhatNoScheduleFits) {
  const RecordedStep step = parsed(recorded_chain(6, 1));
  const auto plan = plan_recorded_step(step, 50, {});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::resource_exhausted);
}

}  // namespace
}  // namespace plimsoll::planner
