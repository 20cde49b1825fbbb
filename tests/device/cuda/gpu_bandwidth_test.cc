// SPDX-License-Identifier: Apache-2.0
// The benchmark's own work, on a GPU that is emulated: what it times is no figure here.
#include "benchmarks/gpu/bandwidth/measure.h"

#include <gtest/gtest.h>

#include "tests/device/cuda/emulated_kernels.h"

namespace plimsoll::device::cuda {
namespace {

class GpuBandwidth : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow the fibers that emulate a GPU's threads";
#endif
    driver_ = std::make_unique<RecordingDriver>();
    device_ = CudaDevice::create(driver_->table(), 0).value();
    auto made = create_emulated_kernels(device_, *driver_);
    if (made.status().code() == StatusCode::failed_precondition) {
      GTEST_SKIP() << made.status().message();
    }
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    provider_ = *made;
    options_.array_bytes = {64 << 10};
    options_.rounds = 1;
    options_.rotated_bytes = 512 << 10;
    options_.most_launches = 2;
    options_.seconds = 1e9;
  }
  void TearDown() override {
    provider_.reset();
    device_.reset();
    if (driver_ == nullptr) return;
    EXPECT_EQ(driver_->leaks(), "");
    for (const std::string& violation : driver_->violations()) ADD_FAILURE() << violation;
  }

  std::unique_ptr<RecordingDriver> driver_;
  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<KernelProvider> provider_;
  benchmarks::BandwidthOptions options_;
};

TEST_F(GpuBandwidth, MeasuresEveryKernelBesideACopy) {
  options_.cases = {"add", "adam", "sum_all", "softmax_of_1024"};
  const auto report = benchmarks::measure_bandwidth(*provider_, options_);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->left_out.empty());
  // Adam is there in f32 alone.
  ASSERT_EQ(report->rows.size(), 7U);
  for (const benchmarks::BandwidthRow& row : report->rows) {
    EXPECT_EQ(row.error, "") << row.name;
    EXPECT_GT(row.seconds, 0) << row.name;
    EXPECT_GT(row.ratio, 0) << row.name;
    const std::int64_t arrays = row.name == "add" ? 3 : row.name == "adam" ? 7 : 1;
    EXPECT_GE(row.bytes, arrays * row.array_bytes) << row.name;
  }
  EXPECT_GT(report->launch_seconds, 0);
  // Two copies, two launches: each graph runs once before it is timed.
  EXPECT_EQ(driver_->calls("cuGraphLaunch"), 2 + 7 * 4);
}

TEST_F(GpuBandwidth, WhatFailsIsSaidInItsRowAndStandsInFront) {
  options_.cases = {"copy", "add"};
  options_.dtypes = {"f32"};
  driver_->fail_next("cuModuleLoadDataEx");
  const auto report = benchmarks::measure_bandwidth(*provider_, options_);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  ASSERT_EQ(report->rows.size(), 2U);
  EXPECT_NE(report->rows[0].error.find("cuModuleLoadDataEx"), std::string::npos);
  EXPECT_TRUE(report->rows[0].loses());
  EXPECT_EQ(report->rows[1].error, "");
}

TEST_F(GpuBandwidth, NoRowBeginsAfterItsTime) {
  options_.cases = {"copy"};
  options_.seconds = 0;
  const auto report = benchmarks::measure_bandwidth(*provider_, options_);
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_TRUE(report->rows.empty());
  EXPECT_EQ(report->left_out.size(), 2U);
  options_.cases = {"copie"};
  EXPECT_EQ(benchmarks::measure_bandwidth(*provider_, options_).status().code(),
            StatusCode::invalid_argument);
}

}  // namespace
}  // namespace plimsoll::device::cuda
