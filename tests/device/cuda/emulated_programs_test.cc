// SPDX-License-Identifier: Apache-2.0
// Programs by the kernels that are compiled for GPUs, on a recorded GPU that emulates them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/backend/cuda_kernels.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

// Layer norm, softmax, a column sum and a loop, which carries a state.
constexpr const char* kRows = R"(
HloModule rows
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
body {
  s = (s32[], f32[48,200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[48,200] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  t = f32[48,200] tanh(x)
  y = f32[48,200] add(t, x)
  ROOT r = (s32[], f32[48,200]) tuple(next, y)
}
condition {
  s = (s32[], f32[48,200]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[48,200] parameter(0)
  scale = f32[200] parameter(1)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  begin = s32[] constant(0)
  state = (s32[], f32[48,200]) tuple(begin, x)
  loop = (s32[], f32[48,200]) while(state), condition=condition, body=body
  y = f32[48,200] get-tuple-element(loop), index=1
  m = f32[48] reduce(y, low), dimensions={1}, to_apply=max
  mb = f32[48,200] broadcast(m), dimensions={0}
  d = f32[48,200] subtract(y, mb)
  e = f32[48,200] exponential(d)
  s = f32[48] reduce(e, zero), dimensions={1}, to_apply=sum
  sb = f32[48,200] broadcast(s), dimensions={0}
  p = f32[48,200] divide(e, sb)
  sc = f32[48,200] broadcast(scale), dimensions={1}
  q = f32[48,200] multiply(p, sc)
  c = f32[200] reduce(q, zero), dimensions={0}, to_apply=sum
  t = f32[200,48] transpose(q), dimensions={1,0}
  ROOT r = (f32[48,200], f32[200], f32[200,48]) tuple(q, c, t)
})";

class EmulatedPrograms : public ::testing::Test {
 protected:
  void open(Schedule schedule, unsigned seed) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
    RecordingOptions options;
    options.schedule = schedule;
    options.seed = seed;
    options.module_bytes = std::int64_t{64} << 10;
    driver_ = std::make_unique<RecordingDriver>(options);
    device_ = CudaDevice::create(driver_->table(), 0).value();
    auto made = create_emulated_kernels(device_, *driver_);
    if (made.status().code() == StatusCode::failed_precondition) {
      GTEST_SKIP() << made.status().message();
    }
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    provider_ = *made;
  }
  void close() {
    provider_.reset();
    device_.reset();
    if (driver_ == nullptr) return;
    EXPECT_EQ(driver_->leaks(), "");
    for (const std::string& violation : driver_->violations()) ADD_FAILURE() << violation;
    driver_.reset();
  }
  void TearDown() override { close(); }
  // The root of `body`, with parameters a and b.
  static std::unique_ptr<ir::Module> of(const std::string& root) {
    return ir::parse_module(
               "HloModule m\nENTRY e {\n  a = f32[100] parameter(0)\n  b = f32[100] parameter(1)\n"
               "  ROOT r = " +
                   root + "\n}\n",
               "emulated")
        .value();
  }

  std::unique_ptr<RecordingDriver> driver_;
  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<KernelProvider> provider_;
};

TEST_F(EmulatedPrograms, HaveTheBitsOfTheCpuAtEveryLimit) {
  const auto module = ir::parse_module(kRows, "rows").value();
  const auto arguments = cases::random_arguments(*module, 3);
  std::string error;
  const auto cpu = backend::create_kernels(cpu_device()).value();
  const ir::Literal expected = testing::run_unlimited(*module, arguments, *cpu, true, error);
  ASSERT_EQ(error, "");
  for (const unsigned seed : {1U, 2U}) {
    open(seed == 1 ? Schedule::late : Schedule::random, seed);
    if (IsSkipped()) return;
    const ir::Literal result = testing::run_unlimited(*module, arguments, *provider_, true, error);
    ASSERT_EQ(error, "");
    EXPECT_EQ(cases::compare_bits(expected, result), "");
    testing::LimitOptions options;
    options.host_bytes = std::int64_t{1} << 30;
    EXPECT_EQ(testing::check_limits(*module, arguments, *provider_, seed, 2, options), "");
    close();
  }
}

TEST_F(EmulatedPrograms, EqualInstructionsShareAModuleAndLetItGo) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  const auto module = of("f32[100] add(a, b)"), again = of("f32[100] add(a, b)");
  // That of small copies is there.
  const std::int64_t loaded = driver_->calls("cuModuleLoadDataEx");
  const std::int64_t code = provider_->statistics().code_bytes;
  {
    const auto first = provider_->kernel(*module->entry()->root());
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    const auto second = provider_->kernel(*again->entry()->root());
    EXPECT_EQ(*first, *second);
    EXPECT_EQ(driver_->calls("cuModuleLoadDataEx"), loaded + 1);
    // Compiled, or kept on disk by an earlier run.
    const KernelStatistics made = provider_->statistics();
    EXPECT_EQ(made.kernels_compiled + made.kernels_loaded, 1);
    EXPECT_EQ(provider_->statistics().cache_hits, 1);
    EXPECT_GT(provider_->statistics().code_bytes, code);
  }
  EXPECT_EQ(driver_->calls("cuModuleUnload"), 1);
  EXPECT_EQ(provider_->statistics().code_bytes, code);
  EXPECT_GT(provider_->statistics().peak_code_bytes, 0);
}

TEST_F(EmulatedPrograms, WhatHasNoKernelIsNamed) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  const auto module = of("f32[100] add(a, b)");
  const auto refused =
      provider_->codec({.kind = ir::CodecKind::bit_mask}, ir::Shape(ir::DType::f32, {100}));
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.status().message().find("cuda:0: codec bit-mask"), std::string::npos)
      << refused.status().message();
  const auto parameter = provider_->kernel(*module->entry()->parameters()[0]);
  EXPECT_EQ(parameter.status().code(), StatusCode::unimplemented);
  EXPECT_NE(parameter.status().message().find("cuda:0: no kernel for 'parameter'"),
            std::string::npos)
      << parameter.status().message();
}

// A loop whose states change places: each round copies them, of 16 bytes and a rest.
TEST_F(EmulatedPrograms, SmallCopiesOfAGraphAreAKernels) {
  open(Schedule::late, 1);
  if (IsSkipped()) return;
  const auto module = ir::parse_module(R"(
HloModule turns
body {
  s = (s32[], f32[37], f32[37]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = f32[37] get-tuple-element(s), index=1
  b = f32[37] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  c = f32[37] add(a, b)
  ROOT r = (s32[], f32[37], f32[37]) tuple(next, b, c)
}
condition {
  s = (s32[], f32[37], f32[37]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  a = f32[37] parameter(0)
  b = f32[37] parameter(1)
  zero = s32[] constant(0)
  state = (s32[], f32[37], f32[37]) tuple(zero, a, b)
  done = (s32[], f32[37], f32[37]) while(state), condition=condition, body=body
  x = f32[37] get-tuple-element(done), index=1
  y = f32[37] get-tuple-element(done), index=2
  ROOT r = (f32[37], f32[37]) tuple(x, y)
})",
                                       "turns")
                          .value();
  const auto arguments = cases::random_arguments(*module, 3);
  std::string error;
  const auto cpu = backend::create_kernels(cpu_device()).value();
  const ir::Literal expected = testing::run_unlimited(*module, arguments, *cpu, true, error);
  ASSERT_EQ(error, "");
  const auto program = executor::Program::create(module->clone(), *provider_, {}).value();
  planner::PlanOptions options;
  options.parameters = planner::default_residency(program->module());
  const auto budget = memory::Budget::create(device_, planner::kUnlimited);
  const auto executable = executor::make_executable(program, options, options, *budget);
  ASSERT_TRUE(executable.ok()) << executable.status().to_string();
  std::vector<std::int64_t> copies;
  for (int run = 0; run < 3; ++run) {
    const std::int64_t before = driver_->calls("cuMemcpyDtoDAsync_v2");
    const auto result = executor::run_on_host(**executable, *budget, arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(expected, *result), "") << run;
    copies.push_back(driver_->calls("cuMemcpyDtoDAsync_v2") - before);
  }
  EXPECT_GE(copies[0], 5);  // by the stream
  EXPECT_EQ(copies[1], 0);
  EXPECT_GT(driver_->calls("cuGraphLaunch"), 0);
}

TEST(CudaKernels, AreForGpusAlone) {
  const auto refused = backend::CudaKernels::create(cpu_device());
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
}

TEST(CudaKernels, AreFoundByTheKindOfTheDevice) {
  // No backend is registered by the name of this one.
  RecordedGpu gpu({.devices = 9}, 8);
  const auto made = backend::create_kernels(gpu.device);
  if (made.status().code() == StatusCode::failed_precondition) {
    GTEST_SKIP() << made.status().message();
  }
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ((*made)->device()->name(), "cuda:8");
}

TEST(CudaKernels, OldGpusAreRefusedByName) {
  RecordedGpu gpu({.devices = 9, .compute_capability = 61}, 8);
  const auto refused = backend::create_kernels(gpu.device);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("cuda:8"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::device::cuda
