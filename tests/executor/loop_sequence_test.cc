// SPDX-License-Identifier: Apache-2.0
// Loops as one launch: what they compute, when they end early, what they leave to a walk through
// the steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "tests/cases/compare.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

// Rounds that are counted, and in each of them rounds that are not, a call, branches by an index
// and by a pred, a product, values that change places.
constexpr const char* kLoops = R"(
HloModule loops
halve { p = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  half = f32[] constant(0.5)
  y = f32[] multiply(x, half)
  one = s32[] constant(1)
  m = s32[] add(n, one)
  ROOT t = (f32[], s32[]) tuple(y, m) }
is_large { p = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  limit = f32[] constant(0.75)
  ROOT c = pred[] compare(x, limit), direction=GT }
twice { p = f32[4,4] parameter(0)
  ROOT a = f32[4,4] add(p, p) }
scaled { p = f32[4,4] parameter(0)
  s = f32[] constant(0.25)
  b = f32[4,4] broadcast(s), dimensions={}
  ROOT m = f32[4,4] multiply(p, b) }
same { p = f32[4,4] parameter(0)
  ROOT c = f32[4,4] copy(p) }
squashed { p = f32[4,4] parameter(0)
  ROOT t = f32[4,4] tanh(p) }
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
body { p = (s32[], f32[4,4], f32[4,4], f32[40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[4,4] get-tuple-element(p), index=1
  y = f32[4,4] get-tuple-element(p), index=2
  log = f32[40] get-tuple-element(p), index=3
  zero = f32[] constant(0)
  nought = s32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0,1}, to_apply=plus
  size = f32[] abs(total)
  inner = (f32[], s32[]) tuple(size, nought)
  halved = (f32[], s32[]) while(inner), condition=is_large, body=halve
  small = f32[] get-tuple-element(halved), index=0
  count = s32[] get-tuple-element(halved), index=1
  three = s32[] constant(3)
  index = s32[] remainder(count, three)
  z = f32[4,4] conditional(index, x, x, x), branch_computations={twice, scaled, same}
  doubled = f32[4,4] call(z), to_apply=twice
  product = f32[4,4] PRODUCT
  two = s32[] constant(2)
  odd = s32[] remainder(i, two)
  is_odd = pred[] compare(odd, nought), direction=NE
  next = f32[4,4] conditional(is_odd, product, product), true_computation=squashed, false_computation=scaled
  one = s32[] constant(1)
  j = s32[] add(i, one)
  row = f32[1] reshape(small)
  log2 = f32[40] dynamic-update-slice(log, row, i)
  bound = f32[4,4] tanh(next)
  ROOT t = (s32[], f32[4,4], f32[4,4], f32[40]) tuple(j, y, bound, log2) }
more { p = (s32[], f32[4,4], f32[4,4], f32[40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY main { x = f32[4,4] parameter(0)
  y = f32[4,4] parameter(1)
  zero = f32[] constant(0)
  log = f32[40] broadcast(zero), dimensions={}
  i = s32[] constant(0)
  init = (s32[], f32[4,4], f32[4,4], f32[40]) tuple(i, x, y, log)
  ROOT w = (s32[], f32[4,4], f32[4,4], f32[40]) while(init), condition=more, body=body })";

// Never ends.
constexpr const char* kEndless = R"(
HloModule endless
body { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[8] get-tuple-element(p), index=1
  two = s32[] constant(2)
  j = s32[] multiply(i, two)
  y = f32[8] cosine(x)
  ROOT t = (s32[], f32[8]) tuple(j, y) }
more { p = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(1)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY main { x = f32[8] parameter(0)
  i = s32[] constant(0)
  init = (s32[], f32[8]) tuple(i, x)
  ROOT w = (s32[], f32[8]) while(init), condition=more, body=body })";

struct Loaded {
  std::vector<ir::Literal> arguments;
  std::shared_ptr<memory::Budget> budget =
      memory::Budget::create(device::default_device(), planner::kUnlimited);
  std::shared_ptr<const Executable> executable;
};

// Loops in which all kernels are the compiler's, or one is not.
std::string loops_text(bool has_dot) {
  std::string text = kLoops;
  const std::string_view mark = "PRODUCT";
  return text.replace(text.find(mark), mark.size(),
                      has_dot
                          ? "dot(doubled, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
                          : "multiply(doubled, y)");
}

Loaded load(const std::string& text, device::KernelProvider& kernels = provider()) {
  Loaded made;
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  made.arguments = cases::random_arguments(**module, 5);
  const auto program = Program::create(*std::move(module), kernels, {});
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  auto executable = make_executable(*program, {}, {}, *made.budget);
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  made.executable = *std::move(executable);
  return made;
}

std::shared_ptr<device::KernelProvider> provider_with(const char* loops) {
  ::setenv("PLIMSOLL_JIT_LOOPS", loops, 1);
  auto made = create_provider();
  ::unsetenv("PLIMSOLL_JIT_LOOPS");
  EXPECT_TRUE(made.ok()) << made.status().to_string();
  return *made;
}

std::int64_t kernels_made(device::KernelProvider& kernels) {
  const device::KernelStatistics statistics = kernels.statistics();
  return statistics.kernels_compiled + statistics.kernels_loaded;
}

TEST(LoopSequence, HasTheBitsOfItsRoundsOneByOne) {
  const Loaded loops = load(loops_text(true));
  const auto run = [&] { return run_on_host(*loops.executable, *loops.budget, loops.arguments); };
  loops.executable->enable_joint_launches(false);
  const auto walked = run();
  ASSERT_TRUE(walked.ok()) << walked.status().to_string();
  loops.executable->enable_joint_launches(true);
  const auto whole = run();
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_TRUE(*walked == *whole);
  // The first rounds of a sample are walked through, the others are not.
  loops.executable->enable_sampling(true);
  for (int i = 0; i < 3; ++i) {
    const auto sampled = run();
    ASSERT_TRUE(sampled.ok()) << sampled.status().to_string();
    EXPECT_TRUE(*walked == *sampled);
  }
  loops.executable->enable_sampling(false);
  loops.executable->enable_profile(true);
  const auto profiled = run();
  ASSERT_TRUE(profiled.ok()) << profiled.status().to_string();
  EXPECT_TRUE(*walked == *profiled);
  // A profile counts every round.
  std::int64_t most = 0;
  for (const Measurement& measurement : loops.executable->measurements()) {
    most = std::max(most, measurement.launches);
  }
  EXPECT_GE(most, 40);
}

TEST(LoopSequence, HasTheSameBitsAsOneFunction) {
  if (!device::default_device()->is_host_memory()) GTEST_SKIP() << "of the host alone";
  const auto launched = provider_with("never"), compiled = provider_with("always");
  const Loaded one = load(loops_text(false), *launched), other = load(loops_text(false), *compiled);
  EXPECT_EQ(kernels_made(*compiled), kernels_made(*launched) + 1);
  const auto expected = run_on_host(*one.executable, *one.budget, one.arguments);
  ASSERT_TRUE(expected.ok()) << expected.status().to_string();
  const auto run = [&] { return run_on_host(*other.executable, *other.budget, other.arguments); };
  const auto whole = run();
  ASSERT_TRUE(whole.ok()) << whole.status().to_string();
  EXPECT_TRUE(*whole == *expected);
  // From the round on that a sample has got to.
  other.executable->enable_sampling(true);
  for (int i = 0; i < 3; ++i) {
    const auto sampled = run();
    ASSERT_TRUE(sampled.ok()) << sampled.status().to_string();
    EXPECT_TRUE(*sampled == *expected);
  }
  // With a kernel in them that is none of the compiler's, they stay launches.
  const std::int64_t before = kernels_made(*compiled);
  const Loaded with_dot = load(loops_text(true), *compiled);
  EXPECT_LE(kernels_made(*compiled) - before, 1);
}

void expect_to_end(const Loaded& endless) {
  RunOptions options;
  options.stop.deadline = Stop::Clock::now() + std::chrono::milliseconds(20);
  const auto late = run_on_host(*endless.executable, *endless.budget, endless.arguments, options);
  EXPECT_EQ(late.status().code(), StatusCode::deadline_exceeded) << late.status().to_string();

  options.stop = {};
  options.stop.cancellation = std::make_shared<Cancellation>();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    options.stop.cancellation->cancel();
  });
  const auto cancelled =
      run_on_host(*endless.executable, *endless.budget, endless.arguments, options);
  other.join();
  EXPECT_EQ(cancelled.status().code(), StatusCode::cancelled) << cancelled.status().to_string();
}

TEST(LoopSequence, EndsWhenItIsCancelledOrItsTimeIsOver) {
  for (const char* mode : {"always", "never"}) {
    const auto kernels = provider_with(mode);
    const Loaded endless = load(kEndless, *kernels);
    expect_to_end(endless);
  }
}

}  // namespace
}  // namespace plimsoll::executor
