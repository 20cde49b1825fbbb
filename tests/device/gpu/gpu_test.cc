// SPDX-License-Identifier: Apache-2.0
// On a GPU, where there is one (scripts/test-gpu.sh): operations, repeated steps and memory as the
// CPU has them. Devices' conformance suite runs on it, too (conformance_test.cc).
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/cases/compare.h"
#include "tests/cases/op_cases.h"
#include "tests/device/cuda/gpu_op_case_check.h"
#include "tests/device/cuda/gpu_random_check.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device {
namespace {

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = find_device("cuda:0");
    if (!device.ok()) GTEST_SKIP() << device.status().message();
    device_ = *device;
    auto provider = backend::create_kernels(device_);
    ASSERT_TRUE(provider.ok()) << provider.status().to_string();
    provider_ = *provider;
    cpu_ = backend::create_kernels(cpu_device()).value();
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelProvider> provider_, cpu_;
};

constexpr int kCaseShards = 8;
class GpuOpCases : public Gpu, public ::testing::WithParamInterface<int> {};

TEST_P(GpuOpCases, HaveTheBitsOfTheCpu) {
  cuda::GpuOpCaseTotals totals;
  const auto& table = cases::op_cases();
  for (std::size_t i = static_cast<std::size_t>(GetParam()); i < table.size(); i += kCaseShards) {
    const std::string error = cuda::check_gpu_op_case(table[i], *provider_, *cpu_, totals);
    EXPECT_EQ(error, "") << table[i].name;
  }
  std::printf("%d cases with the CPU's bits, %d close to them\n", totals.exact, totals.close);
  EXPECT_GT(totals.exact, 100);
  EXPECT_GT(totals.close, 2);
}

INSTANTIATE_TEST_SUITE_P(Shards, GpuOpCases, ::testing::Range(0, kCaseShards));

TEST_F(Gpu, RandomProgramsHaveTheBitsOfTheCpuAtEveryLimit) {
  cuda::GpuRandomTotals totals;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const cuda::GpuRandomSize size{.instructions = 40, .largest_bytes = 1 << 20};
    EXPECT_EQ(cuda::check_gpu_program(seed, 1, size, *provider_, totals), "") << "seed " << seed;
  }
  EXPECT_GE(totals.programs, 6);
}

TEST_F(Gpu, RepeatedStepsGiveTheSameBits) {
  const auto module = ir::parse_module(R"(
HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[512,1024] parameter(0)
  zero = f32[] constant(0)
  t = f32[512,1024] tanh(x)
  s = f32[512] reduce(t, zero), dimensions={1}, to_apply=sum
  sb = f32[512,1024] broadcast(s), dimensions={0}
  d = f32[512,1024] divide(t, sb)
  c = f32[1024] reduce(d, zero), dimensions={0}, to_apply=sum
  ROOT r = (f32[512,1024], f32[1024]) tuple(d, c)
})",
                                       "repeated");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto arguments = cases::random_arguments(**module, 5);
  std::string error;
  const ir::Literal expected = testing::run_unlimited(**module, arguments, *cpu_, true, error);
  auto program = executor::Program::create((*module)->clone(), *provider_, {});
  ASSERT_TRUE(program.ok()) << program.status().to_string();
  planner::PlanOptions options;
  options.parameters = planner::default_residency((*program)->module());
  const auto budget = memory::Budget::create(device_, planner::kUnlimited);
  const auto executable = executor::make_executable(*program, options, options, *budget);
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  for (int i = 0; i < 10; ++i) {
    const auto result = executor::run_on_host(**executable, *budget, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(expected, *result), "") << i;
  }
}

TEST_F(Gpu, MemoryInPiecesIsGivenOutWhole) {
  // Half of what there is, in blocks of which every second one comes back.
  constexpr int kBlocks = 64;
  const std::int64_t bytes = device_->free_bytes() / 2 / kBlocks;
  std::vector<void*> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    const auto made = device_->allocate(bytes);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    blocks.push_back(*made);
  }
  for (std::size_t i = 0; i < blocks.size(); i += 2) device_->deallocate(blocks[i], bytes);
  const std::int64_t most = device_->free_bytes() / 10 * 9;
  const auto whole = device_->allocate(most);
  EXPECT_TRUE(whole.ok()) << whole.status().to_string();
  if (whole.ok()) device_->deallocate(*whole, most);
  for (std::size_t i = 1; i < blocks.size(); i += 2) device_->deallocate(blocks[i], bytes);
}

}  // namespace
}  // namespace plimsoll::device
