// SPDX-License-Identifier: Apache-2.0
// Results that are returned in host memory: no byte behind them is touched.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

TEST(HostResults, EndWhereTheirElementsEnd) {
  for (const std::size_t count : {1U, 3U, 16U, 1000U}) {
    const std::string shape = "f32[" + std::to_string(count) + "]";
    auto module = ir::parse_module("HloModule m\nENTRY e {\n  p = " + shape +
                                       " parameter(0)\n  ROOT n = " + shape + " negate(p)\n}\n",
                                   "m");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto program = Program::create(std::move(*module), provider());
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
    planner::Question question;
    question.parameters = {planner::ParameterResidency::host};
    question.results_on_host = {true};
    const auto executable = make_executable(*program, {}, question, *budget);
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    const std::vector<float> argument(count, 2.0f);
    std::vector<float> result(count + 64, 7.0f);
    const void* const arguments[] = {argument.data()};
    void* const results[] = {result.data()};
    const Status status = run_on_host(**executable, *budget, arguments, results, {});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (std::size_t i = 0; i < result.size(); ++i) {
      EXPECT_EQ(result[i], i < count ? -2.0f : 7.0f) << count << ": " << i;
    }
  }
}

}  // namespace
}  // namespace plimsoll::executor
