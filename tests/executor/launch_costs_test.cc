// SPDX-License-Identifier: Apache-2.0
// A device whose launches cost gets its small kernels compiled as one.
#include <gtest/gtest.h>

#include <memory>

#include "runtime/backend/cpu_kernels.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/fusions/horizontal_fusion.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/device/fake_async.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

constexpr std::string_view kUpdates = R"(
HloModule updates
ENTRY e {
  a = f32[100] parameter(0)
  b = f32[33,7] parameter(1)
  c = f32[512] parameter(2)
  ea = f32[100] exponential(a)
  na = f32[100] negate(ea)
  eb = f32[33,7] tanh(b)
  nb = f32[33,7] multiply(eb, b)
  ec = f32[512] exponential(c)
  nc = f32[512] add(ec, c)
  ROOT t = (f32[100], f32[33,7], f32[512]) tuple(na, nb, nc)
})";

struct Ran {
  ir::Literal result;
  std::size_t horizontal = 0;
};

Ran run_on(std::shared_ptr<device::Device> device) {
  Ran ran;
  const auto provider = backend::CpuKernels::create(device).value();
  auto module = ir::parse_module(kUpdates, "updates").value();
  std::vector<ir::Literal> arguments;
  for (const ir::Instruction* parameter : module->entry()->parameters()) {
    arguments.push_back(cases::random_literal(parameter->shape(), 7));
  }
  const auto program = Program::create(std::move(module), *provider, true);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  for (const auto& instruction : (*program)->module().entry()->instructions()) {
    if (!ir::horizontal_parts(*instruction).empty()) ++ran.horizontal;
  }
  const auto budget = memory::Budget::create(device, planner::kUnlimited);
  const auto executable = make_executable(*program, {}, {}, *budget);
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  auto result = run_on_host(**executable, *budget, arguments);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  ran.result = std::move(*result);
  return ran;
}

TEST(LaunchCosts, DecideWhetherLaunchesAreJoinedAhead) {
  constexpr std::int64_t kBytes = std::int64_t{64} << 20;
  const Ran cheap = run_on(std::make_shared<device::FakeAsyncDevice>(kBytes));
  const Ran costly = run_on(std::make_shared<device::FakeAsyncDevice>(kBytes, true));
  EXPECT_EQ(cheap.horizontal, 0u);
  EXPECT_EQ(costly.horizontal, 1u);
  EXPECT_EQ(cases::compare_bits(cheap.result, costly.result), "");
}

}  // namespace
}  // namespace plimsoll::executor
