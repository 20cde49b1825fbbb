// SPDX-License-Identifier: Apache-2.0
// Programs that evaluate every operation at once give the same bits under limits far below what
// they hold: what no room is left for is evicted and recomputed, or swapped in.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "benchmarks/eager_loops/programs.h"

namespace plimsoll {
namespace {

using benchmarks::EagerProgram;
using benchmarks::EagerSize;

constexpr EagerSize kSmall{.width = 16, .batch = 256, .depth = 24, .repeats = 2};

struct Outcome {
  std::vector<float> results;
  std::int64_t peak_bytes = 0;
  std::string refusal{};  // empty: it ran
  bool refused() const { return !refusal.empty(); }
};

Outcome run(const EagerProgram& program, ContextOptions options) {
  Context context(options);
  const ContextScope scope(context);
  Outcome outcome;
  try {
    outcome.results = program.run(kSmall);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::resource_exhausted) << error.what();
    outcome.refusal = error.what();
  }
  outcome.peak_bytes = context.memory().peak_bytes;
  return outcome;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Eager : public testing::TestWithParam<EagerProgram> {};

TEST_P(Eager, SameBitsUnderEveryLimit) {
  ContextOptions options;
  const Outcome free = run(GetParam(), options);
  ASSERT_FALSE(free.refused());
  const auto at = [&](std::int64_t limit) {
    options.memory_limit_bytes = limit;
    Outcome outcome = run(GetParam(), options);
    EXPECT_LE(outcome.peak_bytes, limit);
    if (!outcome.refused()) {
      EXPECT_TRUE(same_bits(outcome.results, free.results)) << "at " << limit << " bytes";
    }
    return outcome;
  };
  EXPECT_EQ(at(free.peak_bytes).refusal, "");
  EXPECT_EQ(at(free.peak_bytes / 2).refusal, "");
  // The smallest that works, by halving.
  std::int64_t refused = 0, runs = free.peak_bytes / 2;
  while (runs - refused > free.peak_bytes / 100) {
    const std::int64_t limit = (runs + refused) / 2;
    (at(limit).refused() ? refused : runs) = limit;
  }
  EXPECT_LT(runs, free.peak_bytes * 3 / 10);
  RecordProperty("smallest_percent", static_cast<int>(runs * 100 / free.peak_bytes));
}

TEST_P(Eager, SameBitsWithTiers) {
  const Outcome free = run(GetParam(), {});
  const std::string folder = testing::TempDir();
  for (const bool disk : {false, true}) {
    ContextOptions options;
    options.memory_limit_bytes = free.peak_bytes * 3 / 10;
    if (disk) {
      options.spill_dir = folder;
      options.spill_limit_bytes = free.peak_bytes;
    } else {
      options.host_limit_bytes = free.peak_bytes / 2;
    }
    const Outcome limited = run(GetParam(), options);
    EXPECT_EQ(limited.refusal, "");
    EXPECT_LE(limited.peak_bytes, options.memory_limit_bytes);
    EXPECT_TRUE(same_bits(limited.results, free.results)) << (disk ? "disk" : "host");
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Eager, testing::ValuesIn(benchmarks::kEagerPrograms),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace plimsoll
