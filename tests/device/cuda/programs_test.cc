// SPDX-License-Identifier: Apache-2.0
// Whole programs on recorded GPUs: graphs, swapping in every order that events allow, failures.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "jit/gpu/gpu_kernel.h"
#include "runtime/backend/backends.h"
#include "runtime/base/file.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/residency.h"
#include "runtime/program/machine.h"
#include "runtime/program/plan_within.h"
#include "runtime/serve/current_executable.h"
#include "tests/cases/compare.h"
#include "tests/cases/random_module.h"
#include "tests/device/cuda/emulated_kernels.h"
#include "tests/device/cuda/recorded_gpu.h"
#include "tests/executor/limit_check.h"

namespace plimsoll::device::cuda {
namespace {

using executor::Executable;
using executor::Program;

constexpr std::int64_t kPlentyOnHost = std::int64_t{1} << 30;

// Layers whose results are needed again in the opposite order, as those of a training step are.
std::string step_text() {
  constexpr int kLayers = 6;
  std::string text =
      "HloModule step\nENTRY e {\n  h0 = f32[64,96] parameter(0)\n  w = f32[96,96] parameter(1)\n";
  const auto product = [&](const std::string& name, const std::string& of) {
    text += "  " + name + " = f32[64,96] dot(" + of +
            ", w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  };
  for (int i = 1; i <= kLayers; ++i) {
    const std::string n = std::to_string(i);
    product("d" + n, "h" + std::to_string(i - 1));
    text += "  h" + n + " = f32[64,96] tanh(d" + n + ")\n";
  }
  text +=
      "  g" + std::to_string(kLayers) + " = f32[64,96] negate(h" + std::to_string(kLayers) + ")\n";
  for (int i = kLayers - 1; i >= 0; --i) {
    const std::string n = std::to_string(i);
    product("p" + n, "g" + std::to_string(i + 1));
    text += "  g" + n + " = f32[64,96] multiply(p" + n + ", h" + n + ")\n";
  }
  return text + "  ROOT r = (f32[64,96], f32[64,96]) tuple(g0, g" + std::to_string(kLayers) +
         ")\n}\n";
}

RecordingOptions on(Schedule schedule, unsigned seed = 1) {
  RecordingOptions options;
  options.module_bytes = std::int64_t{64} << 10;
  options.schedule = schedule;
  options.seed = seed;
  return options;
}

// A program on a GPU of its own, with arguments and what the CPU makes of them.
class GpuPrograms : public ::testing::Test {
 protected:
  void make(const RecordingOptions& options, std::unique_ptr<ir::Module> module = nullptr,
            MakeKernels make_kernels = nullptr) {
    close();
    if (module == nullptr) module = ir::parse_module(step_text(), "step").value();
    arguments_ = cases::random_arguments(*module, 5);
    std::string error;
    const auto cpu = backend::create_kernels(cpu_device()).value();
    expected_ = testing::run_unlimited(*module, arguments_, *cpu, true, error);
    ASSERT_EQ(error, "");
    gpu_ = std::make_unique<RecordedGpu>(options, 0, make_kernels);
    auto program = Program::create(std::move(module), *gpu_->provider(), {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    program_ = *program;
  }
  // Planned for a limit between floor and peak, with a tier to swap to.
  void plan(std::int64_t percent_of_the_way, const planner::Remedies& remedies) {
    planner::PlanOptions options;
    options.remedies = remedies;
    options.parameters = planner::default_residency(program_->module());
    memory::Tiers tiers;
    tiers.host = memory::HostTier::create(gpu_->device, kPlentyOnHost);
    tiers.host->set_speed({1e12, 1e12, 1e-9, 0});
    auto unlimited = memory::Budget::create(gpu_->device, planner::kUnlimited, tiers);
    const auto peak = make_executable(program_, options, options, *unlimited);
    ASSERT_TRUE(peak.ok()) << peak.status().to_string();
    const auto floor =
        executor::least_floor(*program_, {options, executor::machine_of(tiers), options});
    ASSERT_TRUE(floor.ok()) << floor.status().to_string();
    const std::int64_t most = (*peak)->plan().peak_bytes;
    const std::int64_t limit = floor->bytes + (most - floor->bytes) * percent_of_the_way / 100;
    budget_ = memory::Budget::create(gpu_->device, limit + gpu_->device->overhead_bytes(),
                                     std::move(tiers));
    auto executable = make_executable(program_, options, options, *budget_);
    ASSERT_TRUE(executable.ok()) << executable.status().to_string();
    executable_ = *executable;
  }
  Result<ir::Literal> run() { return executor::run_on_host(*executable_, *budget_, arguments_); }
  // The n-th call of the driver fails, for n = 1, 2, ... until a run makes fewer (beyond
  // `one_by_one` some are left out); at least so many runs fail.
  void fail_every_call(int one_by_one, int fewest_failures) {
    int failures = 0, n = 1;
    for (bool is_past_the_last = false; !is_past_the_last; n += 1 + n / one_by_one) {
      gpu_->driver.fail(n);
      const auto result = run();
      is_past_the_last = gpu_->driver.is_failure_pending();
      gpu_->driver.fail(0);
      // Some things are done in another way where they fail.
      if (result.ok()) {
        EXPECT_EQ(cases::compare_bits(expected_, *result), "") << n;
      } else {
        ++failures;
        EXPECT_FALSE(is_past_the_last) << result.status().to_string();
        EXPECT_NE(result.status().message().find("cu"), std::string::npos);
      }
      const auto again = run();
      ASSERT_TRUE(again.ok()) << n << ": " << again.status().to_string();
      EXPECT_EQ(cases::compare_bits(expected_, *again), "") << n;
    }
    EXPECT_GT(failures, fewest_failures);
  }
  std::int64_t graph_launches() const { return gpu_->driver.calls("cuGraphLaunch"); }
  // Nothing may be left, and nothing may have been wrong.
  void close() {
    executable_.reset();
    program_.reset();
    budget_.reset();
    if (gpu_ == nullptr) return;
    EXPECT_EQ(gpu_->close(), "");
    gpu_.reset();
  }
  void TearDown() override { close(); }

  std::unique_ptr<RecordedGpu> gpu_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Executable> executable_;
  std::shared_ptr<memory::Budget> budget_;
  std::vector<ir::Literal> arguments_;
  ir::Literal expected_;
};

TEST_F(GpuPrograms, RepeatedStepsAreOneLaunchOfAGraph) {
  for (const Schedule schedule : {Schedule::late, Schedule::random, Schedule::eager}) {
    make(on(schedule));
    plan(100, {});
    for (int i = 0; i < 6; ++i) {
      const auto result = run();
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      EXPECT_EQ(cases::compare_bits(expected_, *result), "") << i;
      // The first run finds where things lie, the second is captured.
      EXPECT_EQ(graph_launches(), std::max(0, i));
    }
    const std::int64_t launches = gpu_->driver.calls("cuLaunchKernel");
    EXPECT_GT(launches, 0);
    ASSERT_TRUE(run().ok());
    EXPECT_EQ(gpu_->driver.calls("cuLaunchKernel"), launches);
    EXPECT_EQ(gpu_->driver.calls("cuStreamBeginCapture_v2"), 1);
    // Other values at the same places.
    arguments_ = cases::random_arguments(program_->module(), 6);
    const auto other = run();
    ASSERT_TRUE(other.ok());
    EXPECT_NE(cases::compare_bits(expected_, *other), "");
    EXPECT_EQ(graph_launches(), 7);
    EXPECT_EQ(executable_->graph_runs(), 7);
  }
}

TEST_F(GpuPrograms, LoopsOfKnownRoundsAreAskedNothingAndArePartOfTheGraph) {
  constexpr const char* kLoop = R"(
HloModule loop
inner_body {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  two = s32[] constant(2)
  next = s32[] subtract(i, two)
  y = f32[64] tanh(x)
  ROOT r = (s32[], f32[64]) tuple(next, y)
}
inner_condition {
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  none = s32[] constant(0)
  ROOT r = pred[] compare(i, none), direction=GT
}
body {
  s = (s32[], f32[64], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  seven = s32[] constant(7)
  state = (s32[], f32[64]) tuple(seven, x)
  done = (s32[], f32[64]) while(state), condition=inner_condition, body=inner_body
  y = f32[64] get-tuple-element(done), index=1
  z = f32[64] add(x, y)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = (s32[], f32[64], s32[]) tuple(next, z, n)
}
condition {
  s = (s32[], f32[64], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=2
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[64] parameter(0)
  n = s32[] BOUND
  zero = s32[] constant(0)
  state = (s32[], f32[64], s32[]) tuple(zero, x, n)
  done = (s32[], f32[64], s32[]) while(state), condition=condition, body=body
  ROOT y = f32[64] get-tuple-element(done), index=1
})";
  for (const bool is_known : {true, false}) {
    const std::string text =
        std::regex_replace(kLoop, std::regex("BOUND"), is_known ? "constant(5)" : "parameter(1)");
    make(on(Schedule::late), ir::parse_module(text, "loop").value());
    plan(100, {});
    const std::int64_t reads = gpu_->driver.calls("cuMemcpyDtoHAsync_v2");
    constexpr int kRuns = 4;
    for (int i = 0; i < kRuns; ++i) {
      const auto result = run();
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      EXPECT_EQ(cases::compare_bits(expected_, *result), "") << i;
    }
    // The result's, and those of the condition.
    const std::int64_t read = gpu_->driver.calls("cuMemcpyDtoHAsync_v2") - reads;
    if (is_known) {
      EXPECT_EQ(read, kRuns);
      EXPECT_EQ(graph_launches(), kRuns - 1);
    } else {
      EXPECT_GT(read, kRuns);
      EXPECT_EQ(graph_launches(), 0);
    }
  }
}

TEST_F(GpuPrograms, GraphsAreMadeAnewWhereThingsLieElsewhere) {
  make(on(Schedule::late));
  plan(100, {});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run().ok());
  EXPECT_EQ(graph_launches(), 2);
  // Somebody else has the memory where the arguments were.
  void* const taken = gpu_->device->allocate(64).value();
  for (int i = 0; i < 3; ++i) {
    const auto result = run();
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(cases::compare_bits(expected_, *result), "");
  }
  gpu_->device->deallocate(taken, 64);
  EXPECT_GE(graph_launches(), 4);
}

TEST_F(GpuPrograms, ADriverThatRefusesGraphsIsAskedOnce) {
  make(on(Schedule::late));
  plan(100, {});
  ASSERT_TRUE(run().ok());
  gpu_->driver.fail_next("cuGraphInstantiate");
  const auto result = run();
  ASSERT_TRUE(result.ok()) << result.status().to_string();
  EXPECT_EQ(cases::compare_bits(expected_, *result), "");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(run().ok());
  EXPECT_EQ(gpu_->driver.calls("cuGraphInstantiateWithFlags"), 1);
  EXPECT_EQ(graph_launches(), 0);
  EXPECT_EQ(executable_->graph_runs(), 0);
}

TEST_F(GpuPrograms, SwappedValuesAreRightInEveryOrderThatEventsAllow) {
  planner::Remedies swap;
  swap.recompute = swap.compress = false;
  for (unsigned seed = 1; seed <= 12; ++seed) {
    make(on(seed == 1 ? Schedule::late : Schedule::random, seed));
    plan(20, swap);
    std::int64_t swaps = 0;
    for (const planner::Step& step : executable_->plan().steps) {
      swaps += step.kind == planner::StepKind::swap_out ? 1 : 0;
    }
    ASSERT_GT(swaps, 0);
    for (int i = 0; i < 3; ++i) {
      const auto result = run();
      ASSERT_TRUE(result.ok()) << result.status().to_string();
      EXPECT_EQ(cases::compare_bits(expected_, *result), "") << seed;
    }
    EXPECT_LE(budget_->statistics().peak_bytes, budget_->limit());
  }
}

TEST_F(GpuPrograms, RandomProgramsHoldTheirLimits) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    RecordedGpu gpu(
        on(seed % 2 == 0 ? Schedule::random : Schedule::late, static_cast<unsigned>(seed)));
    cases::RandomModuleOptions shape;
    shape.instructions = 30;
    const auto module = cases::random_module(seed, shape);
    testing::LimitOptions options;
    options.host_bytes = kPlentyOnHost;
    const auto arguments = cases::random_arguments(*module, seed);
    EXPECT_EQ(testing::check_limits(*module, arguments, *gpu.provider(), seed, 2, options), "");
    EXPECT_EQ(gpu.close(), "");
  }
}

// The n-th call of the driver fails, for n = 1, 2, ... until a run makes fewer.
TEST_F(GpuPrograms, EveryDriverCallThatFailsIsAnErrorAndTheNextRunIsRight) {
  planner::Remedies swap;
  swap.recompute = swap.compress = false;
  for (const std::int64_t room : {20, 100}) {  // with transfers, and with graphs
    make(on(Schedule::random, 3));
    plan(room, swap);
    ASSERT_TRUE(run().ok());
    fail_every_call(40, room == 100 ? 4 : 10);
  }
}

// The gradients of a network's weights, one step with the kernels that are compiled for GPUs, every
// call without exception.
TEST_F(GpuPrograms, EveryDriverCallOfAnEmulatedTrainingStepMayFail) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
  if (const auto compiler = jit::GpuCompiler::create({}); !compiler.ok()) {
    GTEST_SKIP() << compiler.status().message();
  }
  const auto text = read_file(PLIMSOLL_SOURCE_DIR "/tests/golden/mlp_step.hlo");
  ASSERT_TRUE(text.ok());
  // Smaller, as threads are emulated one after the other.
  std::string small = std::regex_replace(*text, std::regex("256"), "32");
  small = std::regex_replace(small, std::regex("\\[64,"), "[16,");
  make(on(Schedule::random, 3), ir::parse_module(small, "mlp_step").value(),
       create_emulated_kernels);
  plan(30, {});
  // What the GPU makes of it: its sums of products are in another order than the CPU's.
  const auto first = run();
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(cases::compare_close(expected_, *first, 1e-3, 1e-3), "");
  expected_ = *first;
  fail_every_call(1 << 20, 20);
}

TEST_F(GpuPrograms, WhatCodeTakesOfTheMemoryCountsAgainstTheLimit) {
  RecordingOptions options = on(Schedule::late);
  options.module_bytes = std::int64_t{512} << 10;
  make(options);
  const std::int64_t overhead = gpu_->device->overhead_bytes();
  EXPECT_GE(overhead, 3 * options.module_bytes);
  EXPECT_EQ(overhead % options.module_bytes, 0);
  {
    const auto budget = memory::Budget::create(gpu_->device, overhead + (std::int64_t{1} << 20));
    EXPECT_EQ(budget->limit(), std::int64_t{1} << 20);
    EXPECT_EQ(budget->statistics().overhead_bytes, overhead);
    EXPECT_TRUE(budget->allocate(std::int64_t{1} << 20, memory::Tag::arena, "fits").ok());
    const auto refused = budget->allocate((std::int64_t{1} << 20) + 64, memory::Tag::arena, "more");
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find("taken by code and libraries"), std::string::npos)
        << refused.status().message();
  }
  EXPECT_EQ(memory::Budget::create(gpu_->device, planner::kUnlimited)->limit(),
            planner::kUnlimited);
}

TEST_F(GpuPrograms, RefusalsHaveTheCodeInTheirNumbers) {
  make(on(Schedule::late));
  planner::PlanOptions options;
  options.limit_bytes = 1;
  const auto planned = executor::plan_within(program_, options);
  ASSERT_FALSE(planned.ok());
  const MemoryShortage alone = *planned.status().shortage();
  const Status refusal = executor::beside_code(planned.status(), *gpu_->device);
  const std::int64_t code = gpu_->device->overhead_bytes();
  EXPECT_GT(code, 0);
  EXPECT_EQ(refusal.shortage()->limit_bytes, alone.limit_bytes + code);
  EXPECT_EQ(refusal.shortage()->floor_bytes, alone.floor_bytes + code);
  EXPECT_NE(refusal.message().find(std::to_string(alone.floor_bytes + code)), std::string::npos);
  // Nothing to add for a device without code, or to other errors.
  EXPECT_EQ(executor::beside_code(planned.status(), *cpu_device()).to_string(),
            planned.status().to_string());
  const Status other = internal_error("other");
  EXPECT_EQ(executor::beside_code(other, *gpu_->device).to_string(), other.to_string());
}

TEST_F(GpuPrograms, WhatOtherProcessesTakeMeanwhileIsNoCode) {
  RecordingOptions options = on(Schedule::late);
  options.module_bytes = std::int64_t{32} << 20;
  make(options);
  EXPECT_LE(gpu_->device->overhead_bytes(), std::int64_t{9} << 20);
}

// Full fusion needs all skips at once, so that low limits are for other forms, whose kernels are
// loaded for them.
TEST_F(GpuPrograms, PlansFitBesideTheCodeThatIsLoadedForThem) {
  std::string text = "HloModule skips\nENTRY e {\n  x0 = f32[256,256] parameter(0)\n";
  constexpr int kLevels = 6;
  for (int i = 1; i <= kLevels; ++i) {
    text += fmt::format(
        "  x{} = f32[256,256] dot(x{}, x0), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n",
        i, i - 1);
    text += fmt::format("  s{0} = f32[256,256] tanh(x{0})\n", i);
  }
  text += "  y1 = f32[256,256] add(s1, s2)\n";
  for (int i = 2; i < kLevels; ++i) {
    text += fmt::format("  {}y{} = f32[256,256] add(y{}, s{})\n", i + 1 == kLevels ? "ROOT " : "",
                        i, i - 1, i + 1);
  }
  text += "}\n";
  RecordingOptions options = on(Schedule::late);
  options.module_bytes = std::int64_t{128} << 10;
  const auto module = ir::parse_module(text, "skips").value();
  make(options, module->clone());
  const std::int64_t code = gpu_->device->overhead_bytes();
  program_.reset();
  int refused = 0, ran = 0;
  for (std::int64_t limit = code; limit < code + (std::int64_t{4} << 20); limit += 64 << 10) {
    const auto budget = memory::Budget::create(gpu_->device, limit);
    // A new one each time: a program keeps its forms, and their code.
    const auto program = Program::create(module->clone(), *gpu_->provider(), {});
    ASSERT_TRUE(program.ok()) << program.status().to_string();
    const auto executable = make_executable(*program, {}, {}, *budget);
    if (!executable.ok()) {
      EXPECT_EQ(executable.status().code(), StatusCode::resource_exhausted);
      EXPECT_EQ(ran, 0) << "refused at " << limit;
      ++refused;
      continue;
    }
    ++ran;
    const auto current = executor::CurrentExecutable::create(
        *program, {{}, executor::machine_of({}), {}}, budget, 0);
    ASSERT_TRUE(current.ok()) << "at " << limit << ": " << current.status().to_string();
    EXPECT_LE((*current)->get()->plan().peak_bytes, budget->limit());
    const auto result = executor::run_on_host(**executable, *budget, arguments_);
    ASSERT_TRUE(result.ok()) << "at " << limit << ": " << result.status().to_string();
    EXPECT_EQ(cases::compare_bits(expected_, *result), "");
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(ran, 0);
}

}  // namespace
}  // namespace plimsoll::device::cuda
