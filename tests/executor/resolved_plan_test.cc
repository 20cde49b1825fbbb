// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/resolved_plan.h"
#include "runtime/device/devices.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/nested_loops.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

TEST(ResolvedPlan, IsMadeOncePerPlanHoweverManyLoopsShareIt) {
  constexpr int kDepth = 30;
  auto provider = create_provider();
  ASSERT_TRUE(provider.ok()) << provider.status().to_string();
  auto module = ir::parse_module(cases::nested_loops(kDepth, 2));
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto program = Program::create(std::move(*module), **provider, false);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto executable = make_executable(*program, {}, {}, *budget);
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  const auto resolution = resolve(**program, (*executable)->plan());
  ASSERT_TRUE(resolution.ok()) << resolution.status().to_string();
  EXPECT_EQ(resolution->plans.size(), std::size_t{1 + 2 * kDepth});
  EXPECT_EQ(resolution->plans.front()->plan, &(*executable)->plan());
  const std::vector<float> values(64, 200.0f);
  const auto x = ir::Literal::array<float>({64}, values);
  const auto result = run_on_host(**executable, *budget, std::span(&x, 1));
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_TRUE(*result == x);
}

}  // namespace
}  // namespace plimsoll::executor
