// SPDX-License-Identifier: Apache-2.0
// Operations that a GPU has no kernel for, which run on the host or are copies of the driver's.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/cuda_kernels.h"
#include "runtime/base/log.h"
#include "runtime/base/philox.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/run_together.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

// Whatever the driver is asked to load, it has no use for.
Result<std::shared_ptr<KernelProvider>> create_host_kernels(std::shared_ptr<CudaDevice> device,
                                                            RecordingDriver&) {
  return backend::CudaKernels::create(std::move(device));
}

class HostKernels : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
    if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
      GTEST_SKIP() << compiler.status().message();
    }
    set_log_level(LogLevel::warning);
    set_log_sink([this](LogLevel level, std::string_view line) {
      if (level == LogLevel::warning) said_.emplace_back(line);
    });
  }
  void open(RecordingOptions options = {}, MakeKernels make = create_emulated_kernels) {
    close();
    options.module_bytes = 0;
    gpu_ = std::make_unique<RecordedGpu>(options, 0, make);
  }
  void load(const std::string& text) {
    auto module = ir::parse_module(text, "host");
    ASSERT_TRUE(module.ok()) << module.status().to_string();
    arguments_ = cases::random_arguments(**module, 5);
    auto program = executor::Program::create(std::move(*module), *gpu_->provider(), {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = *program;
    planner::PlanOptions options;
    options.parameters = planner::default_residency(program_->module());
    budget_ = memory::Budget::create(gpu_->device, planner::kUnlimited);
    auto executable = executor::make_executable(program_, options, options, *budget_);
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    executable_ = *executable;
  }
  Result<ir::Literal> run() { return executor::run_on_host(*executable_, *budget_, arguments_); }
  ir::Literal on_cpu(const std::string& text) {
    const auto module = ir::parse_module(text, "host").value();
    const auto cpu = backend::create_kernels(cpu_device()).value();
    std::string error;
    const auto result =
        testing::run_unlimited(*module, cases::random_arguments(*module, 5), *cpu, true, error);
    EXPECT_EQ(error, "");
    return result;
  }
  std::int64_t calls(const char* symbol) const { return gpu_->driver.calls(symbol); }
  void close() {
    executable_.reset();
    program_.reset();
    budget_.reset();
    if (gpu_ == nullptr) return;
    EXPECT_EQ(gpu_->close(), "");
    gpu_.reset();
  }
  void TearDown() override {
    close();
    set_log_sink(nullptr);
  }

  std::unique_ptr<RecordedGpu> gpu_;
  std::shared_ptr<const executor::Program> program_;
  std::shared_ptr<memory::Budget> budget_;
  std::shared_ptr<const executor::Executable> executable_;
  std::vector<ir::Literal> arguments_;
  std::vector<std::string> said_;
};

// Of several sizes, so that the staging memory grows, with compiled kernels in between.
constexpr const char* kTransforms = R"(
HloModule transforms
ENTRY e {
  x = f32[6,10] parameter(0)
  t = f32[6,10] tanh(x)
  a = c64[6,6] fft(t), fft_type=RFFT, fft_length={10}
  m = f32[6,6] abs(a)
  s = f32[6,6] multiply(m, m)
  p = f32[12,6] concatenate(s, m), dimensions={0}
  b = c64[12,4] fft(p), fft_type=RFFT, fft_length={6}
  r = f32[12,4] real(b)
  ROOT n = f32[12,4] negate(r)
})";

TEST_F(HostKernels, HaveTheBitsOfTheCpuInEveryOrder) {
  const ir::Literal expected = on_cpu(kTransforms);
  for (unsigned seed = 0; seed < 6; ++seed) {
    RecordingOptions options;
    options.schedule = seed == 0 ? Schedule::late : seed == 1 ? Schedule::eager : Schedule::random;
    options.seed = seed;
    open(options);
    load(kTransforms);
    for (int i = 0; i < 3; ++i) {
      const auto result = run();
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      EXPECT_EQ(cases::compare_bits(expected, *result), "") << seed;
      EXPECT_EQ(calls("cuLaunchHostFunc"), 2 * (i + 1));
    }
    EXPECT_GT(calls("cuLaunchKernel"), 0);
  }
}

TEST_F(HostKernels, AreSaidOnceAnOperation) {
  open();
  load(kTransforms);
  load(kTransforms);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_EQ(said_[0].find("cuda:0: 'custom-call plimsoll.fft' runs on the host, slower ("), 0U)
      << said_[0];
}

// A run with such an operation is not captured, and the device is asked once.
TEST_F(HostKernels, KeepRunsOutOfGraphs) {
  open();
  load(kTransforms);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(run().ok());
  EXPECT_EQ(calls("cuGraphLaunch"), 0);
  EXPECT_EQ(calls("cuStreamBeginCapture_v2"), 1);
}

// A loop whose rounds are known is a part of graphs, unless the host has a part in it.
TEST_F(HostKernels, WorkInLoops) {
  constexpr const char* kLoop = R"(
HloModule loop
condition { s = (s32[], f32[4,8]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }
body {
  s = (s32[], f32[4,8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  t = f32[4,8] tanh(x)
  f = c64[4,5] fft(t), fft_type=RFFT, fft_length={8}
  y = f32[4,8] fft(f), fft_type=IRFFT, fft_length={8}
  ROOT r = (s32[], f32[4,8]) tuple(next, y)
}
ENTRY e {
  x = f32[4,8] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[4,8]) tuple(zero, x)
  w = (s32[], f32[4,8]) while(s), condition=condition, body=body
  ROOT r = f32[4,8] get-tuple-element(w), index=1
})";
  const ir::Literal expected = on_cpu(kLoop);
  for (const Schedule schedule : {Schedule::late, Schedule::random}) {
    RecordingOptions options;
    options.schedule = schedule;
    open(options);
    load(kLoop);
    for (int i = 1; i <= 4; ++i) {
      const auto result = run();
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      EXPECT_EQ(cases::compare_bits(expected, *result), "");
      EXPECT_EQ(calls("cuLaunchHostFunc"), 10 * i);
    }
    EXPECT_EQ(calls("cuGraphLaunch"), 0);
  }
}

constexpr const char* kMoves = R"(
HloModule moves
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[8,4] parameter(0)
  t = f32[8,4] tanh(x)
  a = f32[8,4] all-reduce(t), replica_groups={}, to_apply=sum
  p = f32[8,4] collective-permute(a), source_target_pairs={}
  s = (f32[8,4], f32[8,4], u32[]) copy-start(a)
  d = f32[8,4] copy-done(s)
  i = u32[] partition-id()
  j = u32[] replica-id()
  ROOT r = (f32[8,4], f32[8,4], f32[8,4], u32[], u32[]) tuple(a, p, d, i, j)
})";

TEST_F(HostKernels, WhatOnlyMovesDataStaysOnTheDeviceAndInGraphs) {
  const ir::Literal expected = on_cpu(kMoves);
  open();
  load(kMoves);
  for (int i = 0; i < 4; ++i) {
    const auto result = run();
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(expected, *result), "");
    EXPECT_EQ(calls("cuGraphLaunch"), i);
  }
  EXPECT_EQ(calls("cuLaunchHostFunc"), 0);
  EXPECT_TRUE(said_.empty());
}

// The state is the host's: the next draw is the one after the CPU's.
TEST_F(HostKernels, DrawWhatTheCpuWouldDrawNext) {
  constexpr const char* kState = R"(
HloModule state
ENTRY e { ROOT r = u64[2] rng-get-and-update-state(), delta=1 }
)";
  using Words = std::vector<std::uint64_t>;
  const auto words = [](const ir::Literal& literal) {
    Words read(2);
    std::memcpy(read.data(), literal.bytes().data(), 16);
    return read;
  };
  const auto draw = [](std::uint64_t number) {
    Words made(2);
    philox::fill(philox::State{0, 0, number}, 8, 0, 2, made.data());
    return made;
  };
  const auto module = ir::parse_module(kState, "state").value();
  const auto cpu = backend::create_kernels(cpu_device()).value();
  const auto kernel = cpu->kernel(*module->entry()->root()).value();
  alignas(64) std::uint64_t drawn[2] = {};
  void* const output = drawn;
  const auto stream = cpu_device()->create_stream().value();
  ASSERT_TRUE(kernel->launch(*stream, {{}, std::span(&output, 1), nullptr}).ok());
  const Words first(drawn, drawn + 2);
  std::uint64_t number = 0;
  while (number < 100'000 && draw(number) != first) ++number;
  ASSERT_EQ(draw(number), first);
  open();
  load(kState);
  for (int i = 1; i <= 3; ++i) {
    const auto result = run();
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_EQ(words(*result), draw(number + static_cast<std::uint64_t>(i)));
  }
}

// Rows of which one would lie beyond the operand's end, as the host finds while it runs.
TEST_F(HostKernels, SayWhereTheRunEndsWhatTheyRefuse) {
  constexpr const char* kRagged = R"(
HloModule ragged
ENTRY e {
  x = f32[4,2] parameter(0)
  o = f32[4,2] parameter(1)
  n = s64[1] parameter(2)
  zero = s64[1] constant({0})
  ROOT r = f32[4,2] ragged-all-to-all(x, o, zero, n, zero, n), replica_groups={{0}}
})";
  open();
  load(kRagged);
  const auto with = [&](std::int64_t rows) {
    std::memcpy(arguments_[2].mutable_bytes().data(), &rows, sizeof rows);
    return run();
  };
  ASSERT_TRUE(with(3).ok());
  const auto refused = with(5);
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  EXPECT_NE(refused.status().message().find("sends 5 rows"), std::string::npos)
      << refused.status().message();
  EXPECT_TRUE(with(4).ok());
}

// They run on the thread that launches them, and so may use the GPU themselves.
TEST_F(HostKernels, FunctionsOfUsersMayCallTheDriver) {
  static CudaDevice* device = nullptr;
  static bool fails = false;
  const Status known = backend::register_custom_call(
      "host_kernels_test.double", [](const CustomCallArguments& given) -> Status {
        if (fails) return invalid_argument("asked to fail");
        EXPECT_GT(device->free_bytes(), 0);
        const auto* from = static_cast<const float*>(given.memory.inputs[0]);
        auto* to = static_cast<float*>(given.memory.outputs[0]);
        for (int i = 0; i < 100; ++i) to[i] = 2 * from[i];
        return ok_status();
      });
  EXPECT_TRUE(known.ok() || known.code() == StatusCode::already_exists);
  constexpr const char* kCall = R"(
HloModule call
ENTRY e {
  x = f32[100] parameter(0)
  t = f32[100] tanh(x)
  c = f32[100] custom-call(t), custom_call_target="host_kernels_test.double"
  ROOT r = f32[100] negate(c)
})";
  open();
  device = gpu_->device.get();
  load(kCall);
  fails = true;
  const auto refused = run();
  EXPECT_EQ(refused.status().code(), StatusCode::invalid_argument);
  fails = false;
  const auto result = run();
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  device = nullptr;
  EXPECT_EQ(calls("cuLaunchHostFunc"), 0);
  constexpr const char* kProduct = R"(
HloModule product
ENTRY e {
  x = f32[100] parameter(0)
  t = f32[100] tanh(x)
  two = f32[] constant(2)
  b = f32[100] broadcast(two), dimensions={}
  c = f32[100] multiply(t, b)
  ROOT r = f32[100] negate(c)
})";
  EXPECT_EQ(cases::compare_bits(on_cpu(kProduct), *result), "");
}

TEST_F(HostKernels, EveryDriverCallThatFailsIsAnErrorAndTheNextRunIsRight) {
  const ir::Literal expected = on_cpu(kTransforms);
  RecordingOptions options;
  options.schedule = Schedule::random;
  open(options);
  load(kTransforms);
  ASSERT_TRUE(run().ok());
  int failures = 0, n = 1;
  for (bool is_past_the_last = false; !is_past_the_last; ++n) {
    gpu_->driver.fail(n);
    const auto result = run();
    is_past_the_last = gpu_->driver.is_failure_pending();
    gpu_->driver.fail(0);
    failures += result.ok() ? 0 : 1;
    const auto again = run();
    ASSERT_TRUE(again.ok()) << n << ": " << again.status().to_string();
    EXPECT_EQ(cases::compare_bits(expected, *again), "") << n;
  }
  EXPECT_GT(failures, 8);
}

// Whole programs, where the driver has no use for the code that there is: with codecs, too.
TEST_F(HostKernels, RunWholeProgramsWhereTheDriverTakesNoCode) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    RecordingOptions options;
    options.unknown_module = DriverResult::no_binary_for_gpu;
    options.schedule = seed == 2 ? Schedule::late : Schedule::random;
    options.seed = static_cast<unsigned>(seed);
    open(options, create_host_kernels);
    cases::RandomModuleOptions shape;
    shape.instructions = 30;
    shape.gates = true;
    shape.control_flow = seed == 3;
    const auto module = cases::random_module(seed, shape);
    const auto arguments = cases::random_arguments(*module, seed);
    testing::LimitOptions limits;
    limits.remedies.recompute = limits.remedies.swap = false;
    testing::LimitCheck report;
    EXPECT_EQ(
        testing::check_limits(*module, arguments, *gpu_->provider(), seed, 2, limits, &report), "");
    EXPECT_EQ(calls("cuLaunchKernel"), 0);
    close();
  }
}

// Of two participants on one GPU: each meets the other on its own thread.
TEST_F(HostKernels, ParticipantsMeetOnTheHost) {
  constexpr const char* kTogether = R"(
HloModule together, replica_count=2
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[64,8] parameter(0)
  t = f32[64,8] tanh(x)
  a = f32[64,8] all-reduce(t), replica_groups={{0,1}}, to_apply=sum
  g = f32[128,8] all-gather(a), replica_groups={{0,1}}, dimensions={0}
  i = u32[] replica-id()
  ROOT r = (f32[64,8], f32[128,8], u32[]) tuple(a, g, i)
})";
  const auto module = ir::parse_module(kTogether, "together").value();
  std::vector<std::vector<ir::Literal>> arguments;
  for (std::uint64_t p = 0; p < 2; ++p) arguments.push_back(cases::random_arguments(*module, p));
  const auto results = [&](const std::shared_ptr<Device>& device, KernelProvider& provider) {
    std::vector<std::shared_ptr<memory::Budget>> budgets;
    for (int p = 0; p < 2; ++p)
      budgets.push_back(memory::Budget::create(device, planner::kUnlimited));
    auto program = executor::Program::create(module->clone(), provider, {});
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    auto executable = executor::make_executable(*program, {}, {}, *budgets[0]);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    auto ran = executor::run_together(**executable, budgets, arguments);
    EXPECT_TRUE(ran.ok()) << ran.status().to_string();
    return ran.ok() ? *ran : std::vector<ir::Literal>(2);
  };
  const auto expected = results(cpu_device(), *backend::create_kernels(cpu_device()).value());
  for (const Schedule schedule : {Schedule::late, Schedule::random}) {
    RecordingOptions options;
    options.schedule = schedule;
    open(options);
    const auto made = results(gpu_->device, *gpu_->provider());
    for (std::size_t p = 0; p < 2; ++p) {
      EXPECT_EQ(cases::compare_bits(expected[p], made[p]), "") << p;
    }
    close();
  }
}

TEST_F(HostKernels, TransfersBetweenParticipantsAreRefusedByName) {
  constexpr const char* kSend = R"(
HloModule send, num_partitions=2
ENTRY e {
  x = f32[64] parameter(0)
  token = token[] after-all()
  s = (f32[64], u32[], token[]) send(x, token), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
  d = token[] send-done(s), channel_id=1
  q = (f32[64], u32[], token[]) recv(token), channel_id=1, frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
  e = (f32[64], token[]) recv-done(q), channel_id=1
  ROOT r = f32[64] get-tuple-element(e), index=0
})";
  open();
  auto module = ir::parse_module(kSend, "send");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto program = executor::Program::create(std::move(*module), *gpu_->provider(), {});
  EXPECT_EQ(program.status().code(), StatusCode::unimplemented);
  EXPECT_NE(program.status().message().find("between participants on GPUs"), std::string::npos)
      << program.status().message();
}

}  // namespace
}  // namespace plimsoll::device::cuda
