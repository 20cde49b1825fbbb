// SPDX-License-Identifier: Apache-2.0
// Random chains of reductions along rows, as one kernel each.
#include <gtest/gtest.h>

#include <string>

#include "tests/cases/random_rows.h"
#include "tests/jit/fusion_check.h"
#include "tests/jit/jit_harness.h"

namespace plimsoll::jit::testing {
namespace {

TEST(RandomRows, HaveTheBitsOfTheirInstructionsInEveryLaunch) {
  constexpr std::int64_t kMinors[] = {2, 3, 7, 8, 9, 16, 17, 33, 64, 127, 128, 129, 255, 256, 700};
  FusionCheck totals, streamed;
  for (std::uint64_t seed = 0; seed < 45; ++seed) {
    const std::int64_t minor = kMinors[seed % std::size(kMinors)];
    std::int64_t rows = 1 + static_cast<std::int64_t>(seed * 7 % 30);
    if (seed % 3 == 0 && minor < 200) rows += 250;  // enough to be computed together
    const std::string text =
        cases::RandomRows(seed, rows, minor, seed % 5 == 4 ? "f64" : "f32").text();
    SCOPED_TRACE(text);
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const auto arguments = arguments_for(*module->entry(), seed);
    EXPECT_EQ(check_fusion(*module, arguments, compiler(), 1e-3, totals), "");
    EXPECT_EQ(check_fusion(*module, arguments, streaming_compiler(), 1e-3, streamed), "");
  }
  EXPECT_EQ(totals.not_fusible, 0);
  EXPECT_GT(totals.in_place, 5);
  EXPECT_EQ(streamed.launches, totals.launches);
}

// In blocks of 256 rows, of which the last one is less, and rows that are computed together.
TEST(RandomRows, WithColumnsHaveTheBitsOfTheirInstructionsInEveryLaunch) {
  constexpr std::int64_t kMinors[] = {9, 16, 17, 33, 64, 127, 128, 255, 256, 700};
  constexpr std::int64_t kRows[] = {2, 3, 5, 30, 255, 256, 257, 520, 1030};
  constexpr const char* kDtypes[] = {"f32", "f32", "bf16", "f64"};
  FusionCheck totals, streamed;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::int64_t minor = kMinors[seed % std::size(kMinors)];
    const std::int64_t rows = kRows[seed % std::size(kRows)];
    const std::string text =
        cases::RandomRows(seed, rows, minor, kDtypes[seed % std::size(kDtypes)], true).text();
    SCOPED_TRACE(text);
    const auto module = parse(text);
    ASSERT_NE(module, nullptr);
    const auto arguments = arguments_for(*module->entry(), seed);
    EXPECT_EQ(check_fusion(*module, arguments, compiler(), 1e-2, totals), "");
    EXPECT_EQ(check_fusion(*module, arguments, streaming_compiler(), 1e-2, streamed), "");
  }
  EXPECT_EQ(totals.not_fusible, 0);
  EXPECT_GT(totals.in_place, 5);
  EXPECT_EQ(streamed.launches, totals.launches);
}

}  // namespace
}  // namespace plimsoll::jit::testing
