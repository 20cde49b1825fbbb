// SPDX-License-Identifier: Apache-2.0
// Conditionals that became selects: what is donated is updated in place.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/executor/executable.h"
#include "runtime/ir/text/text.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// As JAX writes an update of parameters and momenta that is left out where `fine` is 0.
constexpr const char* kUpdate = R"(
HloModule update
kept { p = (f32[512], f32[512], f32[512]) parameter(0)
  x = f32[512] get-tuple-element(p), index=0
  m = f32[512] get-tuple-element(p), index=1
  ROOT t = (f32[512], f32[512]) tuple(x, m) }
updated { p = (f32[512], f32[512], f32[512]) parameter(0)
  x = f32[512] get-tuple-element(p), index=0
  m = f32[512] get-tuple-element(p), index=1
  g = f32[512] get-tuple-element(p), index=2
  rate = f32[] constant(0.1)
  rates = f32[512] broadcast(rate), dimensions={}
  step = f32[512] multiply(rates, g)
  y = f32[512] subtract(x, step)
  n = f32[512] add(m, g)
  ROOT t = (f32[512], f32[512]) tuple(y, n) }
ENTRY main { fine = s32[] parameter(0)
  x = f32[512] parameter(1)
  m = f32[512] parameter(2)
  g = f32[512] parameter(3)
  p = (f32[512], f32[512], f32[512]) tuple(x, m, g)
  ROOT r = (f32[512], f32[512]) conditional(fine, p, p), branch_computations={kept, updated} })";

TEST(SelectedBranches, UpdateWhatIsDonatedInPlace) {
  auto module = ir::parse_module(kUpdate);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto program = Program::create(*std::move(module), provider(), {});
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  using planner::ParameterResidency;
  planner::PlanOptions options;
  options.parameters = {ParameterResidency::resident, ParameterResidency::donated,
                        ParameterResidency::donated, ParameterResidency::resident};
  const auto plan = (*program)->plan(options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  // A scalar at most.
  EXPECT_LE((*plan)->arena_bytes, 64);
}

}  // namespace
}  // namespace plimsoll::executor
