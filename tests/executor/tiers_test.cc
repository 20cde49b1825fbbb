// SPDX-License-Identifier: Apache-2.0
// Encoded and swapped values: plans of the planner's with such steps put in at random, and one by
// hand.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/facts/value_ranges.h"
#include "runtime/planner/residency.h"
#include "tests/cases/compare.h"
#include "tests/cases/programs.h"
#include "tests/cases/random_module.h"
#include "tests/executor/plan_rewriter.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

using executor::Executable;
using executor::Program;
using memory::SpillFile;
using planner::StepKind;

constexpr std::int64_t kPlenty = std::int64_t{1} << 30;

std::shared_ptr<memory::Budget> budget_with_tiers(std::int64_t limit = planner::kUnlimited,
                                                  std::int64_t host = kPlenty,
                                                  std::int64_t disk = kPlenty) {
  memory::Tiers tiers;
  if (host > 0) tiers.host = memory::HostTier::create(device::default_device(), host);
  if (disk > 0) {
    auto file = SpillFile::create(std::filesystem::temp_directory_path().string(), disk,
                                  device::default_device());
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    tiers.disk = std::move(file).value();
  }
  return memory::Budget::create(device::default_device(), limit, std::move(tiers));
}

struct Case {
  std::shared_ptr<const Program> program;
  std::vector<ir::Literal> arguments;
  std::shared_ptr<const planner::Plan> plan;  // as the planner made it
  ir::Literal expected;
};

Case make_case(std::unique_ptr<ir::Module> module, std::uint64_t seed, bool optimize = false) {
  Case made;
  made.arguments = cases::random_arguments(*module, seed);
  auto program = Program::create(std::move(module), provider(), optimize);
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  made.program = std::move(program).value();
  planner::PlanOptions options;
  options.parameters = planner::default_residency(made.program->module());
  auto plan = planner::make_plan(made.program->module(), made.program->cost_model(), options);
  EXPECT_TRUE(plan.ok()) << plan.status().to_string();
  made.plan = std::make_shared<planner::Plan>(std::move(plan).value());
  const auto budget = memory::Budget::create(device::default_device(), planner::kUnlimited);
  const auto executable = Executable::create({made.program, made.plan});
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  auto result = executor::run_on_host(**executable, *budget, made.arguments);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  made.expected = std::move(result).value();
  return made;
}

std::shared_ptr<const Executable> executable_of(const Case& made, planner::Plan plan) {
  const Status proof = planner::check_plan(made.program->module(), plan);
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  auto executable =
      Executable::create({made.program, std::make_shared<planner::Plan>(std::move(plan))});
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  return executable.ok() ? std::move(executable).value() : nullptr;
}

struct Kinds {
  std::int64_t encode = 0, swap_out = 0;
};
Kinds count_kinds(const planner::Plan& plan) {
  Kinds kinds;
  for (const planner::Step& step : plan.steps) {
    if (step.kind == StepKind::encode) ++kinds.encode;
    if (step.kind == StepKind::swap_out) ++kinds.swap_out;
    for (const auto& callee : step.callees) {
      const Kinds inner = count_kinds(*callee);
      kinds.encode += inner.encode;
      kinds.swap_out += inner.swap_out;
    }
  }
  return kinds;
}

std::unique_ptr<ir::Module> small_random_module(std::uint64_t seed) {
  cases::RandomModuleOptions options;
  options.instructions = 40;
  options.largest_bytes = 16 << 10;
  return cases::random_module(seed, options);
}

class RewrittenPlans : public ::testing::TestWithParam<int> {};

TEST_P(RewrittenPlans, GiveTheSameBits) {
  std::int64_t swaps = 0;
  for (int i = 0; i < 4; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 4 + i);
    const Case made = make_case(small_random_module(seed), seed, i % 2 == 0);
    planner::Plan plan = testing::rewrite_plan(*made.plan, seed);
    swaps += count_kinds(plan).swap_out;
    const std::int64_t host = plan.tier_bytes.host, disk = plan.tier_bytes.disk,
                       peak = plan.peak_bytes;
    const std::int64_t constants = plan.by_cause.constants;
    const auto executable = executable_of(made, std::move(plan));
    ASSERT_NE(executable, nullptr);
    const auto budget = budget_with_tiers();
    const auto result = executor::run_on_host(*executable, *budget, made.arguments);
    ASSERT_TRUE(result.ok()) << "seed " << seed << ": " << result.status().to_string();
    EXPECT_TRUE(*result == made.expected) << "seed " << seed;
    executable->enable_joint_launches(false);
    const auto apart = executor::run_on_host(*executable, *budget, made.arguments);
    ASSERT_TRUE(apart.ok()) << "seed " << seed << ": " << apart.status().to_string();
    EXPECT_TRUE(*apart == made.expected) << "seed " << seed;
    EXPECT_EQ(budget->tiers().host->statistics().peak_bytes, host);
    EXPECT_EQ(budget->tiers().disk->statistics().peak_bytes, disk);
    EXPECT_EQ(budget->tiers().host->statistics().used_bytes, 0);
    EXPECT_EQ(budget->tiers().disk->statistics().used_bytes, 0);
    EXPECT_LE(budget->statistics().peak_bytes, peak);
    EXPECT_GE(budget->statistics().peak_bytes, peak - constants);
  }
  EXPECT_GT(swaps, 10);
}

INSTANTIATE_TEST_SUITE_P(Shards, RewrittenPlans, ::testing::Range(0, 4));

// Values in a loop, a mask, something that came from bf16, and a positive part whose input is only
// compared later.
const std::string kProgram = std::string(cases::kLoopOfThree) + R"(
ENTRY main {
  x = f32[512] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[512] broadcast(zero), dimensions={}
  i = s32[] constant(0)
  half = bf16[512] convert(x)
  wide = f32[512] convert(half)
  h = f32[512] tanh(wide)
  mask = pred[512] compare(x, h), direction=LT
  start = (s32[], f32[512]) tuple(i, h)
  loop = (s32[], f32[512]) while(start), condition=condition, body=body
  y = f32[512] get-tuple-element(loop), index=1
  picked = f32[512] select(mask, y, wide)
  positive = pred[512] compare(h, zeros), direction=GT
  gated = f32[512] select(positive, picked, zeros)
  ROOT out = (f32[512], f32[512]) tuple(gated, picked) })";

Case program_case() {
  auto module = ir::parse_module(kProgram);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return make_case(std::move(module).value(), 5);
}

TEST(Tiers, AllKindsOfStepsRunInLoopsToo) {
  const Case made = program_case();
  testing::RewriteOptions everything;
  everything.share = 1;
  const planner::Plan plan = testing::rewrite_plan(*made.plan, 1, everything);
  bool in_loop = false, mask = false, compare = false, narrow = false;
  for (const planner::Step& step : plan.steps) {
    for (const auto& callee : step.callees) in_loop |= count_kinds(*callee).swap_out > 0;
    mask |= step.codec.kind == ir::CodecKind::bit_mask;
    compare |= step.codec.kind == ir::CodecKind::compare_mask;
    narrow |= step.codec.kind == ir::CodecKind::narrow;
  }
  EXPECT_TRUE(in_loop && mask && compare && narrow) << in_loop << mask << compare << narrow;
  const auto executable = executable_of(made, plan);
  ASSERT_NE(executable, nullptr);
  const auto budget = budget_with_tiers();
  for (int run = 0; run < 3; ++run) {
    const auto result = executor::run_on_host(*executable, *budget, made.arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_TRUE(*result == made.expected);
  }
}

TEST(Tiers, SynchronousCopiesNeedNoEngine) {
  const Case made = program_case();
  testing::RewriteOptions on_host;
  on_host.share = 1;
  on_host.disk = false;
  on_host.synchronous = true;
  const auto executable = executable_of(made, testing::rewrite_plan(*made.plan, 1, on_host));
  ASSERT_NE(executable, nullptr);
  executable->enable_profile(true);
  const auto budget = budget_with_tiers();
  for (int run = 0; run < 3; ++run) {
    const auto result = executor::run_on_host(*executable, *budget, made.arguments);
    ASSERT_TRUE(result.ok()) << result.status().to_string();
    EXPECT_TRUE(*result == made.expected);
  }
  std::int64_t launches = 0;
  for (const executor::Measurement& entry : executable->measurements()) {
    if (entry.kind != StepKind::swap_out && entry.kind != StepKind::swap_in) continue;
    EXPECT_TRUE(entry.synchronous);
    EXPECT_EQ(entry.transfer_seconds, 0);
    launches += entry.launches;
  }
  const auto host = budget->tiers().host->statistics();
  EXPECT_GT(launches, 0);
  EXPECT_EQ(launches, host.out.transfers + host.in.transfers);
  EXPECT_EQ(host.out.busy_seconds + host.in.busy_seconds, 0);
}

TEST(Tiers, AProfileTellsWaitingFromMoving) {
  const Case made = program_case();
  testing::RewriteOptions everything;
  everything.share = 1;
  const auto executable = executable_of(made, testing::rewrite_plan(*made.plan, 1, everything));
  ASSERT_NE(executable, nullptr);
  executable->enable_profile(true);
  const auto budget = budget_with_tiers();
  ASSERT_TRUE(executor::run_on_host(*executable, *budget, made.arguments).ok());
  double moved = 0, bytes = 0, launches = 0, encodes = 0;
  for (const executor::Measurement& entry : executable->measurements()) {
    if (entry.kind == StepKind::swap_out || entry.kind == StepKind::swap_in) {
      moved += entry.transfer_seconds;
      bytes += entry.bytes / 2;
      launches += static_cast<double>(entry.launches);
      EXPECT_NE(entry.instruction, nullptr);
    } else {
      EXPECT_EQ(entry.transfer_seconds, 0);
    }
    if (entry.kind == StepKind::encode) {
      ++encodes;
      EXPECT_EQ(entry.name, "encode." + ir::to_string(entry.codec));
    }
  }
  const auto host = budget->tiers().host->statistics(), disk = budget->tiers().disk->statistics();
  EXPECT_EQ(launches, static_cast<double>(host.out.transfers + host.in.transfers +
                                          disk.out.transfers + disk.in.transfers));
  EXPECT_EQ(bytes,
            static_cast<double>(host.out.bytes + host.in.bytes + disk.out.bytes + disk.in.bytes));
  EXPECT_GT(moved, 0);
  EXPECT_GT(encodes, 0);
}

// Makes the n-th of something fail, for n = 1, 2, ... until nothing fails any more: each time an
// error, nothing left allocated, and the next run is right.
template <typename Inject>
int fail_each(const Case& made, const Executable& executable, memory::Budget& budget,
              Inject&& inject) {
  int failures = 0;
  for (std::int64_t n = 1;; ++n) {
    inject(n);
    const auto result = executor::run_on_host(executable, budget, made.arguments);
    inject(0);
    EXPECT_EQ(budget.statistics().used_bytes, 0);
    EXPECT_EQ(budget.tiers().host->statistics().used_bytes, 0);
    EXPECT_EQ(budget.tiers().disk->statistics().used_bytes, 0);
    if (result.ok()) {
      EXPECT_TRUE(*result == made.expected);
      return failures;
    }
    ++failures;
    const auto again = executor::run_on_host(executable, budget, made.arguments);
    EXPECT_TRUE(again.ok()) << again.status().to_string();
    if (!again.ok()) return failures;
    EXPECT_TRUE(*again == made.expected);
  }
}

TEST(Tiers, EveryFailureIsAnErrorAndTheNextRunIsRight) {
  const Case made = program_case();
  testing::RewriteOptions everything;
  everything.share = 1;
  const auto executable = executable_of(made, testing::rewrite_plan(*made.plan, 1, everything));
  ASSERT_NE(executable, nullptr);
  const auto budget = budget_with_tiers();
  memory::Tier& host = *budget->tiers().host;
  auto& disk = static_cast<SpillFile&>(*budget->tiers().disk);
  const auto failures = [&](auto inject) { return fail_each(made, *executable, *budget, inject); };
  // Parameter, two results, constants, arena.
  EXPECT_EQ(failures([&](std::int64_t n) { budget->fail_allocation(n); }), 5);
  EXPECT_EQ(failures([&](std::int64_t n) { host.fail_allocation(n); }), 1);
  EXPECT_EQ(failures([&](std::int64_t n) { disk.fail_allocation(n); }), 1);
  EXPECT_GT(failures([&](std::int64_t n) { host.out().fail_transfer(n); }), 0);
  EXPECT_GT(failures([&](std::int64_t n) { host.in().fail_transfer(n); }), 0);
  EXPECT_GT(failures([&](std::int64_t n) { disk.out().fail_transfer(n); }), 0);
  EXPECT_GT(failures([&](std::int64_t n) { disk.in().fail_transfer(n); }), 0);
  EXPECT_GT(failures([&](std::int64_t n) { disk.inject(SpillFile::Fault::read, n); }), 0);
  EXPECT_GT(failures([&](std::int64_t n) { disk.inject(SpillFile::Fault::write, n); }), 0);
  EXPECT_GT(failures([&](std::int64_t n) { disk.inject(SpillFile::Fault::flipped_bit, n); }), 0);
  // Kernels, those of codecs among them.
  EXPECT_GT(failures([&](std::int64_t n) { executable->fail_launch(n); }), 12);
}

TEST(Tiers, AFailedTransferNamesItsInstruction) {
  const Case made = program_case();
  testing::RewriteOptions swaps;
  swaps.share = 1;
  swaps.compress = swaps.disk = false;
  const auto executable = executable_of(made, testing::rewrite_plan(*made.plan, 1, swaps));
  ASSERT_NE(executable, nullptr);
  const auto budget = budget_with_tiers();
  budget->tiers().host->in().fail_transfer(1);
  const auto result = executor::run_on_host(*executable, *budget, made.arguments);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::unavailable);
  EXPECT_NE(result.status().message().find("moving from host memory"), std::string::npos);
  EXPECT_EQ(result.status().message().find('\''), 0u) << result.status().message();
}

TEST(Tiers, APlanWithoutItsTierIsRefused) {
  const Case made = program_case();
  testing::RewriteOptions swaps;
  swaps.share = 1;
  swaps.compress = swaps.disk = false;
  const auto executable = executable_of(made, testing::rewrite_plan(*made.plan, 1, swaps));
  ASSERT_NE(executable, nullptr);
  const auto none = memory::Budget::create(device::default_device(), planner::kUnlimited);
  EXPECT_EQ(executor::run_on_host(*executable, *none, made.arguments).status().code(),
            StatusCode::failed_precondition);
  const auto small = budget_with_tiers(planner::kUnlimited, 64);
  const Status status = executor::run_on_host(*executable, *small, made.arguments).status();
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  ASSERT_NE(status.shortage(), nullptr);
  EXPECT_EQ(status.shortage()->limit_bytes, 64);
  EXPECT_EQ(small->statistics().used_bytes, 0);
}

// An encoder would refuse such a NaN at run time: nothing may be planned on it.
TEST(Tiers, ANaNThatComesThroughIsNotTakenForABfloat) {
  auto module = ir::parse_module(
      "ENTRY main { x = f32[8] parameter(0)\n s = f32[8] sign(x)\n"
      "  r = f32[8] reduce-precision(x), exponent_bits=8, mantissa_bits=7\n"
      "  ROOT t = (f32[8], f32[8]) tuple(s, r) }");
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  planner::FactFinder facts;
  for (const ir::Instruction* part : (*module)->entry()->root()->operands()) {
    EXPECT_FALSE(facts.find(*part, 0).bf16) << part->name();
  }
}

}  // namespace
}  // namespace plimsoll
