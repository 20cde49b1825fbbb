// SPDX-License-Identifier: Apache-2.0
#include "runtime/program/calibration.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/planner/cost/calibration.h"
#include "tests/executor/test_provider.h"

namespace plimsoll::executor {
namespace {

namespace fs = std::filesystem;

class CalibrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "plimsoll-calibration-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
    folder_ = name + "/cache/plimsoll";
    provider_ = std::move(*create_provider());
  }
  void TearDown() override {
    fs::permissions(base_, fs::perms::owner_all);
    fs::remove_all(base_);
  }
  fs::path only_file() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1U);
    return files.empty() ? fs::path() : files[0];
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  std::string model() const { return provider_->device()->properties().model; }
  planner::Calibration kept() {
    const auto found = planner::parse_calibration(read(only_file()), model());
    EXPECT_TRUE(found.has_value());
    return found.value_or(planner::Calibration());
  }

  fs::path base_;
  std::string folder_;
  std::shared_ptr<device::KernelProvider> provider_;
};

TEST_F(CalibrationTest, IsMeasuredUntilItIsSettledAndKeptForThisUserOnly) {
  const auto first = load_or_measure(folder_, *provider_);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_GT(first->bytes_per_second, 1e8);
  EXPECT_GT(first->contraction_flops_per_second, 1e8);
  EXPECT_LT(first->launch_seconds, 1e-2);
  // Only where the threads of kernels and copies are the same.
  const bool copies = provider_->device()->properties().copy_compute_share > 0;
  EXPECT_EQ(first->link_synchronous_out_bytes_per_second > 1e8, copies);
  EXPECT_EQ(first->link_synchronous_in_bytes_per_second > 1e8, copies);
  EXPECT_EQ(fs::status(folder_).permissions() & fs::perms::all, fs::perms::owner_all);
  planner::Roofline best = *first;
  for (int i = 1; i < 5 && !kept().is_settled; ++i) {
    const auto again = load_or_measure(folder_, *provider_);
    ASSERT_TRUE(again.ok());
    EXPECT_GE(again->contraction_flops_per_second, best.contraction_flops_per_second);
    EXPECT_LE(again->link_latency_seconds, best.link_latency_seconds);
    best = *again;
  }
  EXPECT_TRUE(kept().is_settled);
  // Two measurements never agree to the last digit: this one was read.
  const auto last = load_or_measure(folder_, *provider_);
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(*last, best);
}

TEST_F(CalibrationTest, OneThatIsDoubtedIsMeasuredAgainUnlessItIsNew) {
  for (int i = 0; i < 5 && (i == 0 || !kept().is_settled); ++i) {
    ASSERT_TRUE(load_or_measure(folder_, *provider_).ok());
  }
  const planner::Calibration settled = kept();
  ASSERT_TRUE(settled.is_settled);
  doubt_calibration(folder_, *provider_);
  EXPECT_EQ(kept(), settled);
  const fs::path file = only_file();
  fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(2));
  doubt_calibration(folder_, *provider_);
  EXPECT_EQ(kept(), (planner::Calibration{settled.speeds, 1, false}));
  // A busy moment makes no machine slower than it was.
  ASSERT_TRUE(load_or_measure(folder_, *provider_).ok());
  EXPECT_EQ(kept().measurements, 2);
  EXPECT_GE(kept().speeds.bytes_per_second, settled.speeds.bytes_per_second);
  EXPECT_LE(kept().speeds.cache.computing_seconds, settled.speeds.cache.computing_seconds);
}

TEST_F(CalibrationTest, ADamagedFileIsMeasuredAgain) {
  ASSERT_TRUE(load_or_measure(folder_, *provider_).ok());
  const fs::path file = only_file();
  std::ofstream(file) << "plimsoll calibration 1\nhalf a li";
  const auto speeds = load_or_measure(folder_, *provider_);
  ASSERT_TRUE(speeds.ok());
  EXPECT_EQ(kept().speeds, *speeds);
}

TEST_F(CalibrationTest, AFileThatOthersMayWriteIsNotTrusted) {
  ASSERT_TRUE(load_or_measure(folder_, *provider_).ok());
  planner::Roofline absurd;
  absurd.bytes_per_second = 1;
  const fs::path file = only_file();
  std::ofstream(file) << planner::calibration_text({absurd, 1, true}, model());
  fs::permissions(file, fs::perms::all);
  const auto speeds = load_or_measure(folder_, *provider_);
  ASSERT_TRUE(speeds.ok());
  EXPECT_GT(speeds->bytes_per_second, 1e6);
}

TEST_F(CalibrationTest, WorksWithoutAPlaceToKeepIt) {
  EXPECT_TRUE(load_or_measure("", *provider_).ok());
  std::ofstream(base_ / "file") << "not a folder";
  EXPECT_TRUE(load_or_measure((base_ / "file" / "plimsoll").string(), *provider_).ok());
}

}  // namespace
}  // namespace plimsoll::executor
