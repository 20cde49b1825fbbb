// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/program_run.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/device/devices.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// A run that fails on its way gives its memory back when nothing is under way to it any more: on a
// device that works late, the first parameter is still being copied when the second one fails.
TEST(ProgramRun, EndsItsCopiesBeforeItGivesMemoryBack) {
  auto module = ir::parse_module(
      "HloModule sum\nENTRY e {\n  x = f32[256,1024] parameter(0)\n"
      "  y = f32[256,1024] parameter(1)\n  ROOT r = f32[256,1024] add(x, y)\n}\n",
      "sum");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  ServedProgram served;
  for (const char* const name : {"x", "y"}) {
    served.parameters.push_back({(*module)->entry()->root()->shape(), name, ""});
  }
  served.results.push_back({(*module)->entry()->root()->shape(), "r", ""});
  served.question.parameters = planner::default_residency(**module);
  auto program = Program::create(std::move(*module), provider(), false);
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  served.program = std::move(*program);
  constexpr std::int64_t kLimit = 16 << 20;
  served.budget = memory::Budget::create(device::default_device(), kLimit);
  auto plans =
      SharedPlans::create(served.program, served.policy, served.question, served.budget, 0);
  ASSERT_TRUE(plans.ok()) << plans.status().to_string();
  served.plans = std::move(*plans);
  const std::vector<float> x(256 * 1024, 1), y(256 * 1024, 2);
  std::vector<float> r(256 * 1024);
  const auto run = [&] {
    ProgramRun one(served, {});
    PLIMSOLL_RETURN_IF_ERROR(one.add_host(x.data()));
    PLIMSOLL_RETURN_IF_ERROR(one.add_host(y.data()));
    PLIMSOLL_RETURN_IF_ERROR(one.launch());
    return one.copy_result(0, r.data());
  };
  device::Device& device = *device::default_device();
  for (int i = 0; i < 50; ++i) {
    device.fail(device::Call::copy, 2);
    EXPECT_EQ(run().code(), StatusCode::unavailable);
    EXPECT_EQ(served.budget->statistics().used_bytes, 0);
    served.budget->set_limit(1);  // what is kept for later runs goes back to the device
    served.budget->set_limit(kLimit);
  }
  device.fail(device::Call::copy, 0);
  const Status ran = run();
  EXPECT_TRUE(ran.ok()) << ran.to_string();
  EXPECT_EQ(r, std::vector<float>(256 * 1024, 3));
}

}  // namespace
}  // namespace plimsoll::executor
