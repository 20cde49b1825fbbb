// SPDX-License-Identifier: Apache-2.0
// Small kernels in one launch, as compilation does it by default: how many launches there are, and
// that nothing else changes. Random programs do the same at random limits (limit_check.h), plans
// rewritten to swap in tiers_test.cc.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/graphs/adam_update.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/executor/resolved_plan.h"
#include "runtime/ir/interpreter/interpreter.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

using executor::Executable;
using executor::Program;

struct Prepared {
  std::unique_ptr<ir::Module> module;
  std::vector<ir::Literal> arguments;
  std::shared_ptr<memory::Budget> budget =
      memory::Budget::create(device::default_device(), planner::kUnlimited);
  std::shared_ptr<const Executable> executable;

  ir::Literal run() const {
    auto result = executor::run_on_host(*executable, *budget, arguments);
    EXPECT_TRUE(result.ok()) << result.status().to_string();
    return result.ok() ? std::move(result).value() : ir::Literal();
  }
};

Prepared prepare(const std::string& text, const executor::ProgramOptions& options = {}) {
  Prepared made;
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  made.module = std::move(module).value();
  const std::vector<cases::InputRange> positive(made.module->entry()->parameters().size(),
                                                {0.1, 2});
  made.arguments = cases::random_arguments(*made.module, 3, positive);
  const auto program = Program::create(made.module->clone(), provider(), options);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  auto executable = make_executable(*program, {}, {}, *made.budget);
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  made.executable = std::move(executable).value();
  return made;
}

class Threads {
 public:
  explicit Threads(int count) : before_(device::thread_count()) { device::set_thread_count(count); }
  ~Threads() { device::set_thread_count(before_); }

 private:
  int before_;
};

// Biases and scales of 10 to 256 elements, matrices of 10 x 10 to 64 x 64, now and then a large
// one.
std::vector<std::string> mixed_dims(int count) {
  std::vector<std::string> dims;
  for (int i = 0; i < count; ++i) {
    const int n = i % 40 == 0 ? 200 : 10 + i * 7 % 55;
    const std::string side = std::to_string(n);
    dims.push_back(i % 4 == 0 ? side + "," + side : std::to_string(10 + i * 37 % 247));
  }
  return dims;
}

TEST(JointLaunches, AdamOfTwoHundredParametersTakesFew) {
  const Prepared step = prepare(graphs::adam_update(mixed_dims(200)));
  const executor::LaunchCounts launches = step.executable->launches();
  EXPECT_GE(launches.kernels, 200);
  EXPECT_LE(launches.launches, 4);
  const auto expected = ir::interpret(*step.module, step.arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    const Threads scope(threads);
    step.executable->enable_joint_launches(true);
    const ir::Literal joint = step.run();
    EXPECT_EQ(step.budget->statistics().peak_bytes, step.executable->plan().peak_bytes);
    step.executable->enable_joint_launches(false);
    EXPECT_TRUE(step.run() == joint);
    EXPECT_EQ(cases::compare_close(*expected, joint, 1e-5, 1e-3), "");
  }
}

// Two scans of a loop's body that do not depend on each other, and sums of what they make.
const char* const kLaunchLoop = R"(
HloModule loop
sum { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
body { s = (s32[], f32[300], f32[20,30], f32[300]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[300] get-tuple-element(s), index=1
  y = f32[20,30] get-tuple-element(s), index=2
  z = f32[300] get-tuple-element(s), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[300] sine(x)
  b = f32[300] multiply(a, z)
  c = f32[20,30] cosine(y)
  zero = f32[] constant(0)
  r = f32[30] reduce(c, zero), dimensions={0}, to_apply=sum
  small = f32[] constant(0.02)
  scale = f32[30] broadcast(small), dimensions={}
  m = f32[30] multiply(r, scale)
  wide = f32[20,30] broadcast(m), dimensions={1}
  d = f32[20,30] subtract(c, wide)
  n = f32[300] negate(z)
  ROOT t = (s32[], f32[300], f32[20,30], f32[300]) tuple(j, b, d, n) }
condition { s = (s32[], f32[300], f32[20,30], f32[300]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT p = pred[] compare(i, n), direction=LT }
ENTRY main {
  x = f32[300] parameter(0)
  y = f32[20,30] parameter(1)
  z = f32[300] parameter(2)
  i = s32[] constant(0)
  start = (s32[], f32[300], f32[20,30], f32[300]) tuple(i, x, y, z)
  loop = (s32[], f32[300], f32[20,30], f32[300]) while(start), condition=condition, body=body
  p = f32[300] get-tuple-element(loop), index=1
  q = f32[20,30] get-tuple-element(loop), index=2
  o = f32[300] get-tuple-element(loop), index=3
  zero = f32[] constant(0)
  e = f32[300] exponential(p)
  t = f32[] reduce(q, zero), dimensions={0,1}, to_apply=sum
  g = f32[300] tanh(o)
  ROOT out = (f32[300], f32[], f32[300], f32[20,30]) tuple(e, t, g, q) })";

TEST(JointLaunches, BodiesOfLoopsHaveThemToo) {
  const Prepared made = prepare(kLaunchLoop);
  const auto resolution = executor::resolve(made.executable->program(), made.executable->plan());
  ASSERT_TRUE(resolution.ok()) << resolution.status().to_string();
  bool in_body = false;
  for (const auto& plan : resolution->plans) {
    if (plan->plan->computation == made.executable->plan().computation) continue;
    in_body = in_body || !plan->joint_launches.empty();
  }
  EXPECT_TRUE(in_body);
  const auto expected = ir::interpret(*made.module, made.arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    const Threads scope(threads);
    made.executable->enable_joint_launches(true);
    const ir::Literal joint = made.run();
    made.executable->enable_joint_launches(false);
    EXPECT_TRUE(made.run() == joint);
    EXPECT_EQ(cases::compare_close(*expected, joint, 1e-4, 1e-3), "");
  }
}

// The hook counts kernels, whether they share a launch or not.
TEST(JointLaunches, EveryKernelThatFailsIsAnErrorAndTheNextRunIsRight) {
  for (const std::string& text : {graphs::adam_update(mixed_dims(12)), std::string(kLaunchLoop)}) {
    const Prepared made = prepare(text);
    const ir::Literal expected = made.run();
    ASSERT_LT(made.executable->launches().launches, made.executable->launches().kernels);
    for (const bool joint : {true, false}) {
      made.executable->enable_joint_launches(joint);
      std::int64_t failures = 0;
      for (std::int64_t n = 1;; ++n) {
        made.executable->fail_launch(n);
        const auto result = executor::run_on_host(*made.executable, *made.budget, made.arguments);
        EXPECT_EQ(made.budget->statistics().used_bytes, 0);
        if (result.ok()) {
          EXPECT_TRUE(*result == expected);
          break;
        }
        EXPECT_EQ(result.status().code(), StatusCode::unavailable);
        EXPECT_NE(result.status().message().find("injected"), std::string::npos);
        EXPECT_TRUE(made.run() == expected);
        ++failures;
      }
      made.executable->fail_launch(0);
      EXPECT_GE(failures, made.executable->launches().kernels);
    }
  }
}

// A profile times step by step, so it has every kernel; the run's results stay what they are.
TEST(JointLaunches, AProfileSeesEveryKernel) {
  const Prepared step = prepare(graphs::adam_update(mixed_dims(50)));
  const ir::Literal expected = step.run();
  for (const auto& entry : step.executable->profile()) EXPECT_EQ(entry.launches, 0);
  step.executable->enable_profile(true);
  EXPECT_TRUE(step.run() == expected);
  std::int64_t launches = 0;
  for (const auto& measured : step.executable->measurements()) {
    if (measured.kind != planner::StepKind::compute) continue;
    EXPECT_EQ(measured.launches, 1) << measured.name;
    EXPECT_GT(measured.seconds, 0) << measured.name;
    launches += measured.launches;
  }
  EXPECT_EQ(launches, step.executable->launches().kernels);
}

// What costs are learned from is how kernels run, together: each has its price's share of the
// launch.
TEST(JointLaunches, ASampleTimesThemTogether) {
  const Prepared step = prepare(R"(HloModule m
ENTRY e {
  x = f32[64] parameter(0)
  y = f32[3000] parameter(1)
  a = f32[64] tanh(x)
  b = f32[3000] sqrt(y)
  ROOT r = (f32[64], f32[3000]) tuple(a, b)
})");
  ASSERT_EQ(step.executable->launches().launches, 1);
  planner::MeasuredCosts& costs = step.executable->program().costs();
  step.executable->enable_sampling(true);
  const ir::Literal first = step.run();
  for (int run = 0; run < 8; ++run) EXPECT_TRUE(step.run() == first);
  ASSERT_GE(costs.runs(), 2);
  ASSERT_TRUE(costs.update(1e-12));
  std::vector<double> ratios;
  for (const auto& instruction : step.executable->program().module().entry()->instructions()) {
    if (step.executable->program().kernel(*instruction) == nullptr) continue;
    ratios.push_back(costs.model().seconds(*instruction) / costs.base().seconds(*instruction));
  }
  ASSERT_EQ(ratios.size(), 2U);
  EXPECT_NEAR(ratios[0] / ratios[1], 1, 1e-6);
}

TEST(JointLaunches, AnOrderThatTheProgramAsksForStays) {
  const auto text = [](const std::string& order) {
    return "HloModule m, is_scheduled=true\nENTRY e { x = f32[64] parameter(0)\n"
           "y = f32[100] parameter(1)\n a = f32[64] tanh(x)\n b = f32[100] tanh(y)" +
           order + "\nROOT r = (f32[64], f32[100]) tuple(a, b) }";
  };
  EXPECT_EQ(prepare(text("")).executable->launches().launches, 1);
  EXPECT_EQ(prepare(text(", control-predecessors={a}")).executable->launches().launches, 2);
}

TEST(JointLaunches, TheEnvironmentTurnsThemOff) {
  const std::string text = graphs::adam_update({"10", "20"});
  ::setenv("PLIMSOLL_LAUNCHES", "apart", 1);
  const auto options = executor::program_options_from_environment();
  ::setenv("PLIMSOLL_LAUNCHES", "together", 1);
  const auto refused = executor::program_options_from_environment();
  ::unsetenv("PLIMSOLL_LAUNCHES");
  ASSERT_TRUE(options.ok());
  const Prepared apart = prepare(text, *options);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("PLIMSOLL_LAUNCHES"), std::string::npos);
  const Prepared joint = prepare(text);
  EXPECT_EQ(joint.executable->launches().launches, 1);
  EXPECT_TRUE(joint.run() == apart.run());
}

}  // namespace
}  // namespace plimsoll
