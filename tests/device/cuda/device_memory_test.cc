// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/pinned_memory.h"
#include "tests/device/cuda/recording_driver.h"

namespace plimsoll::device::cuda {
namespace {

constexpr std::int64_t kGpuMiB = std::int64_t{1} << 20;

RecordingOptions with_mib(std::int64_t mib, bool maps_memory = true) {
  RecordingOptions options;
  options.device_bytes = mib * kGpuMiB;
  options.context_bytes = 10 * kGpuMiB;
  options.module_bytes = kGpuMiB;
  options.maps_memory = maps_memory;
  return options;
}

struct Blocks {
  explicit Blocks(const RecordingOptions& options) : driver(options) {
    context = Context::create(driver.table(), 0).value();
    memory = make_device_memory(context).value();
  }
  ~Blocks() {
    memory.reset();
    context.reset();
    EXPECT_EQ(driver.leaks(), "");
    EXPECT_TRUE(driver.violations().empty()) << driver.violations().front();
  }
  void* get(std::int64_t mib) {
    const auto made = memory->allocate(mib * kGpuMiB);
    return made.ok() ? *made : nullptr;
  }
  void give_back(void* pointer, std::int64_t mib) { memory->deallocate(pointer, mib * kGpuMiB); }

  RecordingDriver driver;
  std::shared_ptr<const Context> context;
  std::unique_ptr<DeviceMemory> memory;
};

TEST(CudaMemory, WhatContextsTakeIsNotTheirs) {
  const RecordingDriver driver(with_mib(100));
  const auto context = Context::create(driver.table(), 0).value();
  EXPECT_EQ(context->bytes_at_start(), 90 * kGpuMiB);
  EXPECT_EQ(context->facts().compute_capability, 90);
  EXPECT_EQ(context->facts().driver_version, 12040);
  EXPECT_NEAR(context->facts().bytes_per_second, 3.35e12, 0.01e12);
}

TEST(CudaMemory, GivesOutAllThereIsAndNotMore) {
  for (const bool maps : {true, false}) {
    Blocks blocks(with_mib(100, maps));
    void* const first = blocks.get(60);
    void* const second = blocks.get(30);
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(blocks.context->free_bytes().value(), 0);
    const auto refused = blocks.memory->allocate(1);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
    EXPECT_NE(refused.status().message().find("cuda:0"), std::string::npos);
    EXPECT_NE(refused.status().message().find("0 are free"), std::string::npos);
    blocks.give_back(first, 60);
    void* const again = blocks.get(60);
    EXPECT_NE(again, nullptr);
    blocks.give_back(again, 60);
    blocks.give_back(second, 30);
  }
}

// 2 MiB in every second place are free, which no allocator by blocks could give out as one.
TEST(CudaMemory, IsNeverShortBecauseItLiesInPieces) {
  Blocks blocks(with_mib(90));
  std::vector<void*> all;
  for (int i = 0; i < 40; ++i) all.push_back(blocks.get(2));
  ASSERT_NE(all.back(), nullptr);
  for (std::size_t i = 0; i < all.size(); i += 2) blocks.give_back(all[i], 2);
  EXPECT_EQ(blocks.memory->held_bytes(), 80 * kGpuMiB);
  EXPECT_EQ(blocks.memory->kept_bytes(), 40 * kGpuMiB);
  void* const whole = blocks.get(40);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(blocks.memory->held_bytes(), 80 * kGpuMiB);
  EXPECT_EQ(blocks.memory->kept_bytes(), 0);
  EXPECT_EQ(blocks.driver.calls("cuMemCreate"), 40);
  blocks.give_back(whole, 40);
  for (std::size_t i = 1; i < all.size(); i += 2) blocks.give_back(all[i], 2);
}

TEST(CudaMemory, WhatIsKeptCanBeGivenBack) {
  Blocks blocks(with_mib(100));
  const auto free = [&] { return blocks.context->free_bytes().value(); };
  const std::int64_t at_start = free();
  void* const kept = blocks.get(5);
  void* const given = blocks.get(40);
  blocks.give_back(given, 40);
  EXPECT_LE(free(), at_start - 40 * kGpuMiB);
  blocks.memory->release_kept();
  EXPECT_EQ(blocks.memory->held_bytes(), 6 * kGpuMiB);  // granules of 2 MiB
  EXPECT_EQ(free(), at_start - 6 * kGpuMiB);
  // There is as much as before.
  void* const again = blocks.get(80);
  EXPECT_NE(again, nullptr);
  blocks.give_back(again, 80);
  blocks.give_back(kept, 5);
}

TEST(CudaMemory, StepsThatRepeatCallNoDriver) {
  Blocks blocks(with_mib(100));
  void* const parameters = blocks.get(7);
  const auto step = [&] {
    void* const arena = blocks.get(50);
    void* const output = blocks.get(3);
    blocks.give_back(arena, 50);
    blocks.give_back(output, 3);
    return arena;
  };
  void* const first = step();
  const std::int64_t maps = blocks.driver.calls("cuMemMap");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(), first);
  EXPECT_EQ(blocks.driver.calls("cuMemMap"), maps);
  EXPECT_EQ(blocks.driver.calls("cuMemUnmap"), 0);
  blocks.give_back(parameters, 7);
}

TEST(CudaMemory, RandomBlocksAreApartAndNeedNoMoreThanTheirSum) {
  Blocks blocks(with_mib(200));
  std::minstd_rand random(7);
  struct Block {
    std::byte* data;
    std::int64_t bytes;
  };
  std::vector<Block> held;
  std::int64_t used = 0, peak = 0;
  for (int i = 0; i < 2000; ++i) {
    if (!held.empty() && (random() % 2 == 0 || used > 120 * kGpuMiB)) {
      const std::size_t at = random() % held.size();
      blocks.memory->deallocate(held[at].data, held[at].bytes);
      used -= held[at].bytes;
      held[at] = held.back();
      held.pop_back();
      continue;
    }
    // Mostly small ones.
    const std::int64_t bytes = random() % 8 == 0
                                   ? static_cast<std::int64_t>(random() % (16 * kGpuMiB))
                                   : static_cast<std::int64_t>(random() % 5000);
    const auto made = blocks.memory->allocate(bytes);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    held.push_back({static_cast<std::byte*>(*made), bytes});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(*made) % kBlockAlignment, 0u);
    used += bytes;
    peak = std::max(peak, used);
  }
  std::sort(held.begin(), held.end(), [](auto& a, auto& b) { return a.data < b.data; });
  for (std::size_t i = 1; i < held.size(); ++i) {
    EXPECT_LE(held[i - 1].data + held[i - 1].bytes, held[i].data);
  }
  // Small blocks that stay keep the granules around them from moving.
  EXPECT_LT(blocks.memory->held_bytes(), peak + 60 * kGpuMiB);
  for (const Block& block : held) blocks.memory->deallocate(block.data, block.bytes);
}

// Wherever a call fails: nothing leaks, what was there stays, and the next try works.
TEST(CudaMemory, EveryCallThatFailsIsAnErrorAndTheNextTryWorks) {
  for (const bool maps : {true, false}) {
    bool is_past_the_last = false;
    int failures = 0;
    for (int n = 1; !is_past_the_last; ++n) {
      Blocks blocks(with_mib(100, maps));
      void* const before = blocks.get(5);
      void* const gap = blocks.get(6);
      void* const behind = blocks.get(5);
      blocks.give_back(gap, 6);
      blocks.driver.fail(n);
      void* const made = blocks.get(50);
      is_past_the_last = blocks.driver.is_failure_pending();
      failures += made == nullptr ? 1 : 0;
      EXPECT_TRUE(made != nullptr || !is_past_the_last) << n;
      blocks.driver.fail(0);
      void* const again = blocks.get(20);
      EXPECT_NE(again, nullptr);
      if (made != nullptr) blocks.give_back(made, 50);
      blocks.give_back(again, 20);
      blocks.give_back(before, 5);
      blocks.give_back(behind, 5);
    }
    // Of 25 granules, each made, mapped and opened; of one block.
    EXPECT_GT(failures, maps ? 40 : 0);
  }
}

TEST(CudaMemory, ADeviceWhoseMakingFailsLeavesNothing) {
  int failures = 0;
  for (int n = 1;; ++n) {
    RecordingDriver driver(with_mib(100));
    driver.fail(n);
    const auto device = CudaDevice::create(driver.table(), 0);
    if (driver.is_failure_pending()) break;
    // Fewer addresses do, too.
    if (device.ok()) continue;
    ++failures;
    EXPECT_EQ(driver.leaks(), "") << n;
    EXPECT_NE(device.status().message().find("cuda:0"), std::string::npos)
        << device.status().message();
  }
  EXPECT_GT(failures, 15);
}

TEST(CudaMemory, AGpuThatIsNotThereIsSaidSo) {
  const RecordingDriver driver(with_mib(100));
  const auto device = CudaDevice::create(driver.table(), 3);
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), StatusCode::not_found);
  EXPECT_NE(device.status().message().find("shows 1"), std::string::npos);
}

TEST(CudaMemory, BlocksComeFromAnyThread) {
  Blocks blocks(with_mib(100));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        void* const block = blocks.get(1 + (i + t) % 5);
        EXPECT_NE(block, nullptr);
        blocks.give_back(block, 1 + (i + t) % 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CudaPinnedMemory, IsKeptForTheNextOfItsSize) {
  RecordingDriver driver(with_mib(100));
  {
    const auto context = Context::create(driver.table(), 0).value();
    PinnedMemory pinned(context);
    void* const first = pinned.allocate(10 * kGpuMiB).value();
    std::memset(first, 1, 10 * kGpuMiB);
    pinned.deallocate(first);
    EXPECT_EQ(pinned.allocate(9 * kGpuMiB).value(), first);
    EXPECT_EQ(driver.calls("cuMemHostAlloc"), 1);
    void* const small = pinned.allocate(0).value();
    EXPECT_NE(small, first);
    pinned.deallocate(first);
    pinned.deallocate(small);
    // Never more than so much, whatever comes back.
    std::vector<void*> many;
    for (int i = 0; i < 40; ++i) many.push_back(pinned.allocate((10 + i) * kGpuMiB).value());
    for (void* const block : many) pinned.deallocate(block);
    EXPECT_LE(pinned.held_bytes(), PinnedMemory::kMostKept);
  }
  EXPECT_EQ(driver.leaks(), "");
}

}  // namespace
}  // namespace plimsoll::device::cuda
