// SPDX-License-Identifier: Apache-2.0
// Products by weights of fewer bytes than they are read in.
#include <gtest/gtest.h>

#include <string>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "runtime/program/plan_within.h"
#include "tests/cases/compare.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// Tiles do not divide the columns; as floats they are 33 MB.
constexpr const char* kScaledProduct = R"(HloModule m
ENTRY e {
  x = f32[6,256] parameter(0)
  w = s8[256,33000] parameter(1)
  s = f32[33000] parameter(2)
  f = f32[256,33000] convert(w)
  b = f32[256,33000] broadcast(s), dimensions={1}
  m = f32[256,33000] multiply(f, b)
  ROOT y = f32[6,33000] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})";

TEST(NarrowProducts, NeverHoldAllWeightsAsFloats) {
  if (!device::default_device()->is_host_memory()) GTEST_SKIP() << "of the host alone";
  auto module = ir::parse_module(kScaledProduct);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto arguments = cases::random_arguments(**module, 3);
  planner::PlanOptions options;
  options.parameters = planner::default_residency(**module);
  const auto run = [&](const std::shared_ptr<const Program>& program, std::int64_t limit) {
    const auto budget = memory::Budget::create(device::default_device(), limit, {});
    const auto executable = make_executable(program, options, options, *budget);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    auto result = run_on_host(**executable, *budget, arguments);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_LE(budget->statistics().peak_bytes, limit);
    return std::move(*result);
  };
  const auto as_written = Program::create((*module)->clone(), provider(), false);
  ASSERT_TRUE(as_written.ok()) << as_written.status().to_string();
  const auto program = Program::create((*module)->clone(), provider(), true);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  const auto plan = (*program)->plan(options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_LT((*plan)->arena_bytes, std::int64_t{12} << 20);
  const auto result = run(*program, planner::kUnlimited);
  EXPECT_EQ(cases::compare_close(run(*as_written, planner::kUnlimited), result, 1e-5), "");
  const auto floor = least_floor(**program, options);
  ASSERT_TRUE(floor.ok()) << floor.status().to_string();
  EXPECT_EQ(cases::compare_bits(result, run(*program, floor->bytes)), "");
}

}  // namespace
}  // namespace plimsoll::executor
