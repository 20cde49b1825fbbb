// SPDX-License-Identifier: Apache-2.0
// Training steps of scans whose residuals lie on another tier slice by slice.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/host_run.h"
#include "runtime/ir/text/text.h"
#include "runtime/planner/check/check.h"
#include "tests/cases/compare.h"
#include "tests/cases/gru_step.h"
#include "tests/cases/random_module.h"
#include "tests/executor/limit_check.h"
#include "tests/executor/test_provider.h"

namespace plimsoll {
namespace {

using executor::Executable;
using executor::Program;

std::unique_ptr<ir::Module> parse(const std::string& text) {
  auto module = ir::parse_module(text);
  EXPECT_TRUE(module.ok()) << module.status().to_string();
  return std::move(module).value();
}

struct Scan {
  std::shared_ptr<const Program> program;
  std::vector<ir::Literal> arguments;
};

Scan make_scan(int rounds, int batch, int width) {
  auto module = parse(cases::gru_step(rounds, batch, width));
  Scan scan;
  scan.arguments = cases::random_arguments(*module, 7);
  auto program = Program::create(std::move(module), provider(), {});
  EXPECT_TRUE(program.ok()) << program.status().to_string();
  scan.program = std::move(program).value();
  return scan;
}

struct Outcome {
  ir::Literal result;
  std::int64_t measured_bytes = 0;
  std::shared_ptr<const Executable> executable;
  const planner::Plan& plan() const { return executable->plan(); }
};

Outcome run_at(const Scan& scan, std::int64_t limit, bool disk = false,
               planner::PlanOptions options = {}) {
  const auto device = device::default_device();
  memory::Tiers tiers;
  constexpr std::int64_t kPlenty = std::int64_t{1} << 30;
  if (disk) {
    auto file =
        memory::SpillFile::create(std::filesystem::temp_directory_path().string(), kPlenty, device);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    tiers.disk = std::move(file).value();
    tiers.disk->set_speed({10e9, 10e9, 10e-6});
  } else {
    tiers.host = memory::HostTier::create(device, kPlenty);
    tiers.host->set_speed({10e9, 10e9, 10e-6});
  }
  const auto budget = memory::Budget::create(device, limit, std::move(tiers));
  options.limit_bytes = limit;
  auto executable = make_executable(scan.program, options, options, *budget);
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  Outcome outcome;
  if (!executable.ok()) return outcome;
  outcome.executable = std::move(executable).value();
  const Status proof = planner::check_plan(outcome.executable->program().module(), outcome.plan());
  EXPECT_TRUE(proof.ok()) << proof.to_string();
  outcome.executable->enable_profile(true);
  auto result = executor::run_on_host(*outcome.executable, *budget, scan.arguments);
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  if (result.ok()) outcome.result = std::move(result).value();
  outcome.measured_bytes = budget->statistics().peak_bytes;
  return outcome;
}

// So that what is stacked has to go elsewhere.
planner::PlanOptions without_recomputation() {
  planner::PlanOptions options;
  options.remedies.recompute = false;
  return options;
}

int sliced_residuals(const planner::Plan& plan) {
  int count = 0;
  for (const planner::Step& step : plan.steps) {
    for (const planner::SlicedState& state : step.sliced) count += state.writes ? 1 : 0;
  }
  return count;
}

TEST(Scan, ATrainingStepRunsAtHalfAndAThirdOfItsPeakWithTheSameBits) {
  const Scan scan = make_scan(32, 64, 128);
  const Outcome all = run_at(scan, planner::kUnlimited);
  ASSERT_EQ(sliced_residuals(all.plan()), 0);
  for (const int percent : {50, 30}) {
    const std::int64_t limit = all.plan().peak_bytes * percent / 100;
    const Outcome some = run_at(scan, limit, /*disk=*/false, without_recomputation());
    ASSERT_TRUE(some.executable != nullptr);
    EXPECT_GE(sliced_residuals(some.plan()), percent == 30 ? 3 : 1);
    EXPECT_EQ(cases::compare_bits(all.result, some.result), "");
    EXPECT_LE(some.measured_bytes, limit);
    EXPECT_GE(some.plan().predicted_seconds, all.plan().predicted_seconds);
    // Each round copies while the next or the one before it computes.
    EXPECT_LE(some.plan().predicted_seconds, 1.3 * all.plan().predicted_seconds);
    RecordProperty("predicted_" + std::to_string(percent),
                   std::to_string(some.plan().predicted_seconds / all.plan().predicted_seconds));
  }
}

TEST(Scan, EverySliceIsCopiedOutAndInOnce) {
  constexpr int kRounds = 9;
  const Scan scan = make_scan(kRounds, 64, 128);
  const Outcome all = run_at(scan, planner::kUnlimited);
  const Outcome some =
      run_at(scan, all.plan().peak_bytes * 6 / 10, /*disk=*/false, without_recomputation());
  const int residuals = sliced_residuals(some.plan());
  ASSERT_GT(residuals, 0);
  for (const executor::ProfileEntry& entry : some.executable->profile()) {
    if (entry.name.starts_with("swap-")) {
      EXPECT_EQ(entry.launches, kRounds * residuals) << entry.name;
      EXPECT_EQ(entry.bytes, 2.0 * 64 * 128 * 4 * kRounds * residuals) << entry.name;
    }
  }
}

// Slices whose size is no multiple of the alignment, on the disk.
TEST(Scan, SlicesOfAnySizeKeepTheirBitsOnTheDisk) {
  const Scan scan = make_scan(13, 7, 19);
  const Outcome all = run_at(scan, planner::kUnlimited);
  planner::PlanOptions options;
  options.remedies.recompute = options.remedies.compress = false;
  const Outcome some = run_at(scan, all.plan().peak_bytes * 7 / 10, /*disk=*/true, options);
  ASSERT_TRUE(some.executable != nullptr);
  EXPECT_GT(sliced_residuals(some.plan()), 0);
  EXPECT_GT(some.plan().tier_bytes.disk, 0);
  EXPECT_EQ(cases::compare_bits(all.result, some.result), "");
}

TEST(Scan, EveryLimitGivesTheSameBitsAsWrittenToo) {
  for (const bool optimize : {true, false}) {
    const auto module = parse(cases::gru_step(6, 16, 32));
    testing::LimitOptions options;
    options.optimize = optimize;
    options.host_bytes = 1 << 20;
    testing::LimitCheck report;
    EXPECT_EQ(testing::check_limits(*module, cases::random_arguments(*module, 3), provider(), 5, 4,
                                    options, &report),
              "");
    EXPECT_GT(report.slicing_plans, 0);
  }
}

// The residuals of tests/golden, whole and encoded, or slice by slice.
TEST(Scan, ResidualsKeepTheirBitsEncodedAsAWholeToo) {
  for (const char* name : {"scan_mask", "scan_narrow"}) {
    std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR "/tests/golden/") + name + ".hlo");
    std::stringstream text;
    text << file.rdbuf();
    const auto module = parse(text.str());
    for (const bool compress : {true, false}) {
      testing::LimitOptions options;
      // The optimizer stacks what fewer bytes can say.
      options.optimize = std::string_view(name) != "scan_narrow";
      options.remedies = {false, compress, !compress, false};
      options.host_bytes = compress ? 0 : 1 << 26;
      testing::LimitCheck report;
      EXPECT_EQ(testing::check_limits(*module, cases::random_arguments(*module, 3), provider(), 5,
                                      2, options, &report),
                "")
          << name;
      EXPECT_GT(compress ? report.encoding_plans : report.slicing_plans, 0) << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll
