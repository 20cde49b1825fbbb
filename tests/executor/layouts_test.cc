// SPDX-License-Identifier: Apache-2.0
// Random networks of convolutions through the whole stack: near the interpreter in whatever layout
// they are written, and the same bits at every limit.
#include <gtest/gtest.h>

#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_convolutions.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

TEST(Layouts, RandomNetworksAgreeWithTheInterpreterAndHaveTheSameBitsAtEveryLimit) {
  auto provider = create_provider();
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  for (std::uint64_t seed = 1000; seed < 1012; ++seed) {
    const auto module = cases::random_convolutions(seed);
    const auto arguments = cases::random_arguments(*module, seed);
    const auto expected = ir::interpret(*module, arguments);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    std::string error;
    const ir::Literal result = testing::run_unlimited(*module, arguments, **provider, true, error);
    ASSERT_EQ(error, "") << "seed " << seed;
    EXPECT_EQ(cases::compare_close(*expected, result, 1e-4, 1.0), "") << "seed " << seed << "\n"
                                                                      << ir::to_text(*module);
    EXPECT_EQ(testing::check_limits(*module, arguments, **provider, seed, 1), "")
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace plimsoll
