// SPDX-License-Identifier: Apache-2.0
// Every row of the table of op cases through the whole stack: as written and optimized (fused)
// against the interpreter, and the same bits at its floor and between floor and peak.
#include "tests/cases/op_cases.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

#include <gtest/gtest.h>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"

namespace plimsoll {
namespace {

class OpCases : public ::testing::TestWithParam<int> {};

constexpr int kShards = 16;

TEST_P(OpCases, AgreeWithTheInterpreterFusedUnfusedAndAtEveryLimit) {
  const auto& cases = cases::op_cases();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < cases.size(); i += kShards) {
    const cases::OpCase& op_case = cases[i];
    SCOPED_TRACE(op_case.name);
    auto module = ir::parse_module(op_case.hlo, op_case.name);
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto arguments = cases::random_arguments(**module, 11 + i, op_case.ranges);
    const auto expected = ir::interpret(**module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    for (const bool optimize : {false, true}) {
      std::string error;
      const ir::Literal result =
          testing::run_unlimited(**module, arguments, provider(), optimize, error);
      ASSERT_EQ(error, "") << (optimize ? "optimized" : "as written");
      EXPECT_EQ(cases::compare(*expected, result, op_case.tolerance), "")
          << (optimize ? "optimized" : "as written");
    }
    EXPECT_EQ(testing::check_limits(**module, arguments, provider(), i, 1), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, OpCases, ::testing::Range(0, kShards));

}  // namespace
}  // namespace plimsoll
