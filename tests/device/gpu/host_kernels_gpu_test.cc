// SPDX-License-Identifier: Apache-2.0
// On a GPU, where there is one: what it has no kernel for, and programs of several participants.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/run_together.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device {
namespace {

class GpuHostKernels : public ::testing::Test {
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
  // `runs` runs, each with the CPU's bits, which the same memory serves.
  void compare(const char* text, int runs) {
    const auto module = ir::parse_module(text, "host");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    const auto arguments = cases::random_arguments(**module, 5);
    std::string error;
    const auto expected = testing::run_unlimited(**module, arguments, *cpu_, true, error);
    ASSERT_EQ(error, "");
    auto program = executor::Program::create((*module)->clone(), *provider_, {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    planner::PlanOptions options;
    options.parameters = planner::default_residency((*program)->module());
    const auto budget = memory::Budget::create(device_, planner::kUnlimited);
    const auto executable = executor::make_executable(*program, options, options, *budget);
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    for (int i = 0; i < runs; ++i) {
      const auto result = executor::run_on_host(**executable, *budget, arguments);
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      ASSERT_EQ(cases::compare_bits(expected, *result), "") << i;
    }
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<KernelProvider> provider_, cpu_;
};

TEST_F(GpuHostKernels, TransformsHaveTheBitsOfTheCpu) {
  compare(R"(
HloModule transforms
ENTRY e {
  x = f32[600,1000] parameter(0)
  t = f32[600,1000] negate(x)
  a = c64[600,501] fft(t), fft_type=RFFT, fft_length={1000}
  m = f32[600,501] real(a)
  s = f32[600,500] slice(m), slice={[0:600], [0:500]}
  b = c64[600,251] fft(s), fft_type=RFFT, fft_length={500}
  r = f32[600,251] imag(b)
  ROOT n = f32[600,251] negate(r)
})",
          20);
}

TEST_F(GpuHostKernels, WhatMovesDataAloneIsCopied) {
  compare(R"(
HloModule moves
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[800,400] parameter(0)
  t = f32[800,400] negate(x)
  a = f32[800,400] all-reduce(t), replica_groups={}, to_apply=sum
  p = f32[800,400] collective-permute(a), source_target_pairs={}
  s = (f32[800,400], f32[800,400], u32[]) copy-start(a)
  d = f32[800,400] copy-done(s)
  i = u32[] partition-id()
  ROOT r = (f32[800,400], f32[800,400], f32[800,400], u32[]) tuple(a, p, d, i)
})",
          20);
}

TEST_F(GpuHostKernels, ParticipantsMeet) {
  constexpr const char* kTogether = R"(
HloModule together, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[640,80] parameter(0)
  t = f32[640,80] negate(x)
  a = f32[640,80] all-reduce(t), replica_groups={{0,1}}, to_apply=sum
  g = f32[1280,80] all-gather(a), replica_groups={{0,1}}, dimensions={0}
  i = u32[] replica-id()
  ROOT r = (f32[640,80], f32[1280,80], u32[]) tuple(a, g, i)
})";
  const auto module = ir::parse_module(kTogether, "together").value();
  std::vector<std::vector<ir::Literal>> arguments;
  for (std::uint64_t p = 0; p < 2; ++p) arguments.push_back(cases::random_arguments(*module, p));
  std::vector<std::vector<ir::Literal>> results;
  for (const auto& [device, provider] : {std::pair{cpu_device(), cpu_}, {device_, provider_}}) {
    std::vector<std::shared_ptr<memory::Budget>> budgets;
    for (int p = 0; p < 2; ++p) {
      budgets.push_back(memory::Budget::create(device, planner::kUnlimited));
    }
    const auto program = executor::Program::create(module->clone(), *provider, {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    const auto executable = executor::make_executable(*program, {}, {}, *budgets[0]);
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    for (int i = 0; i < 5; ++i) {
      auto ran = executor::run_together(**executable, budgets, arguments);
      ASSERT_TRUE(ran.ok()) << ran.status().to_string();
      if (i == 0) results.push_back(*ran);
      for (std::size_t p = 0; p < 2; ++p) {
        EXPECT_EQ(cases::compare_bits(results.back()[p], (*ran)[p]), "");
      }
    }
  }
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(cases::compare_bits(results[0][p], results[1][p]), "") << p;
  }
}

// Kernels are compiled by the driver, which may wait for the GPU, while the GPU waits for the host.
TEST_F(GpuHostKernels, RunWhileOthersCompile) {
  std::atomic<bool> is_over{false};
  std::thread compiling([&] {
    for (int i = 0; !is_over && i < 200; ++i) {
      const std::string n = std::to_string(100 + i);
      const auto module =
          ir::parse_module("HloModule m\nENTRY e {\n  x = f32[" + n +
                               "] parameter(0)\n  ROOT r = f32[" + n + "] tanh(x)\n}\n",
                           "compiled");
      std::vector<const ir::Instruction*> all(8, (*module)->entry()->root());
      for (const auto& kernel : provider_->kernels(all)) EXPECT_TRUE(kernel.ok());
    }
  });
  compare(R"(
HloModule transforms
ENTRY e {
  x = f32[600,1000] parameter(0)
  a = c64[600,501] fft(x), fft_type=RFFT, fft_length={1000}
  ROOT m = f32[600,501] real(a)
})",
          50);
  is_over = true;
  compiling.join();
}

}  // namespace
}  // namespace plimsoll::device
