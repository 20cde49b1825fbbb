// SPDX-License-Identifier: Apache-2.0
// A part of what `scripts/random_fusions.sh` runs as long as one likes.
#include <gtest/gtest.h>

#include "tests/cases/op_cases.h"
#include "tests/jit/fusion_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

constexpr int kShards = 8;

class RandomFusions : public ::testing::TestWithParam<int> {};

// Each with its own shapes and at a size around the edges of vectors, tiles and chunks, every other
// one of those with stores past the caches.
TEST_P(RandomFusions, HaveTheBitsOfTheirInstructionsInEveryLaunch) {
  constexpr std::int64_t kExtents[] = {1, 15, 16, 17, 31, 33, 63, 64, 65, 255, 257};
  const std::size_t count = cases::op_cases().size();
  FusionCheck totals;
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < count; i += 3 * kShards) {
    EXPECT_EQ(check_random_fusion(i, 0, i, compiler(), totals), "");
    const std::int64_t extent = kExtents[i * 7 % std::size(kExtents)];
    if (cases::resized(cases::op_cases()[i], extent).empty()) continue;
    Compiler& with = i % 2 == 0 ? compiler() : streaming_compiler();
    EXPECT_EQ(check_random_fusion(i, extent, i + 1, with, totals), "");
  }
  EXPECT_GT(totals.fusions, 15);
  EXPECT_GT(totals.in_place, 2);
}

INSTANTIATE_TEST_SUITE_P(Shards, RandomFusions, ::testing::Range(0, kShards));

// Large enough to be cut among threads.
TEST(RandomFusions, OfManyElementsHaveTheBitsOfTheirInstructionsOnEveryThreadCount) {
  const auto& table = cases::op_cases();
  FusionCheck totals;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const bool chosen = table[i].name == "tanh.f32.1000" || table[i].name == "exponential.f64.17" ||
                        table[i].name == "reduce.add.rows.f32" ||
                        table[i].name == "reduce.add.columns.bf16" ||
                        table[i].name == "transpose.2d.f32" || table[i].name == "add.bf16.17";
    if (!chosen) continue;
    EXPECT_EQ(check_random_fusion(i, 60'013, 5, compiler(), totals), "");
  }
  EXPECT_GE(totals.fusions, 4);
}

}  // namespace
}  // namespace plimsoll::jit::testing
