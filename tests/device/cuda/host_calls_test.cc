// SPDX-License-Identifier: Apache-2.0
// Work that a GPU's stream has the host do, on recorded GPUs.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/beside_pool.h"
#include "runtime/device/cpu/parallel.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "tests/device/cuda/recorded_gpu.h"

namespace plimsoll::device::cuda {
namespace {

class HostCalls : public ::testing::TestWithParam<Schedule> {
 protected:
  void SetUp() override {
    RecordingOptions options;
    options.schedule = GetParam();
    gpu_ = std::make_unique<RecordedGpu>(options);
    stream_ = gpu_->device->create_stream().value();
  }
  void TearDown() override {
    stream_.reset();
    EXPECT_EQ(gpu_->close(), "");
  }
  CudaStream& stream() { return static_cast<CudaStream&>(*stream_); }

  std::unique_ptr<RecordedGpu> gpu_;
  std::unique_ptr<Stream> stream_;
};

TEST_P(HostCalls, HappenInTheStreamsOrder) {
  constexpr std::int64_t kBytes = 1 << 12;
  void* const on_device = gpu_->device->allocate(kBytes).value();
  const std::vector<unsigned char> given(kBytes, 7);
  std::vector<unsigned char> read(kBytes, 0);
  ASSERT_TRUE(stream().copy(on_device, given.data(), kBytes, CopyKind::host_to_device).ok());
  for (int i = 0; i < 3; ++i) {
    auto* const staged = stream().staging(kBytes).value();
    ASSERT_TRUE(stream().copy(staged, on_device, kBytes, CopyKind::device_to_host).ok());
    ASSERT_TRUE(stream()
                    .call_on_host([staged] {
                      parallel_for(kBytes, 64, [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t at = begin; at < end; ++at) {
                          staged[at] = std::byte(2 * std::to_integer<int>(staged[at]) + 1);
                        }
                      });
                      return ok_status();
                    })
                    .ok());
    ASSERT_TRUE(stream().copy(on_device, staged, kBytes, CopyKind::host_to_device).ok());
  }
  ASSERT_TRUE(stream().copy(read.data(), on_device, kBytes, CopyKind::device_to_host).ok());
  ASSERT_TRUE(stream().synchronize().ok());
  EXPECT_EQ(read, std::vector<unsigned char>(kBytes, 63));  // 7, 15, 31, 63
  gpu_->device->deallocate(on_device, kBytes);
}

TEST_P(HostCalls, FailWhereTheStreamIsWaitedFor) {
  const auto event = gpu_->device->create_event().value();
  ASSERT_TRUE(stream().call_on_host([] { return invalid_argument("the first"); }).ok());
  ASSERT_TRUE(stream().call_on_host([] { return invalid_argument("the second"); }).ok());
  ASSERT_TRUE(stream().record(*event).ok());
  EXPECT_EQ(event->wait().message(), "the first");
  const Status failed = stream().synchronize();
  EXPECT_EQ(failed.code(), StatusCode::invalid_argument);
  EXPECT_EQ(failed.message(), "the first");
  EXPECT_TRUE(stream().synchronize().ok());
  ASSERT_TRUE(stream().call_on_host([]() -> Status { throw std::runtime_error("thrown"); }).ok());
  const Status thrown = stream().synchronize();
  EXPECT_EQ(thrown.code(), StatusCode::internal);
  EXPECT_NE(thrown.message().find("thrown"), std::string::npos);
}

TEST_P(HostCalls, GetMoreMemoryOnceWhatUsedTheOldHasEnded) {
  bool is_over = false;
  auto* const first = stream().staging(1 << 10).value();
  std::memset(first, 1, 1 << 10);
  EXPECT_EQ(stream().staging(1 << 9).value(), first);
  ASSERT_TRUE(stream()
                  .call_on_host([&] {
                    is_over = first[(1 << 10) - 1] == std::byte{1};
                    return ok_status();
                  })
                  .ok());
  auto* const second = stream().staging(1 << 20).value();
  EXPECT_TRUE(is_over);
  std::memset(second, 2, 1 << 20);
}

TEST_P(HostCalls, MayCallNothingOfTheDriver) {
  ASSERT_TRUE(stream()
                  .call_on_host([&] {
                    (void)gpu_->device->free_bytes();
                    return ok_status();
                  })
                  .ok());
  ASSERT_TRUE(stream().synchronize().ok());
  const auto found = gpu_->driver.violations();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back(), "cuMemGetInfo_v2: called by a function on the host");
  stream_.reset();
  gpu_ = std::make_unique<RecordedGpu>();  // the first one has something to complain of
}

TEST_P(HostCalls, TakeNoPartInGraphs) {
  ASSERT_TRUE(stream().begin_capture().ok());
  EXPECT_EQ(stream().staging(64).status().code(), StatusCode::unimplemented);
  EXPECT_EQ(stream().call_on_host([] { return ok_status(); }).code(), StatusCode::unimplemented);
  EXPECT_TRUE(stream().end_capture().ok());
}

INSTANTIATE_TEST_SUITE_P(Schedules, HostCalls,
                         ::testing::Values(Schedule::late, Schedule::random, Schedule::eager));

// The pool may be full of threads that wait for the device, which waits for the function.
TEST(BesidePool, WorksWhereAllThreadsOfThePoolAreHeld) {
  std::atomic<bool> is_done{false};
  std::atomic<int> sum{0};
  std::thread callback([&] {
    while (sum.load() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the others come, too
    const BesidePool beside;
    std::atomic<int> pieces{0};
    parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_TRUE(BesidePool::is_in_force());
      pieces += static_cast<int>(end - begin);
    });
    EXPECT_EQ(pieces, 64);
    is_done = true;
  });
  // Threads of the pool, this one included, are held here until the callback has ended.
  parallel_for(thread_count(), 1, [&](std::int64_t begin, std::int64_t end) {
    sum += static_cast<int>(end - begin);
    while (!is_done) std::this_thread::yield();
  });
  callback.join();
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace plimsoll::device::cuda
