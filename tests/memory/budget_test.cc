// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/budget/budget.h"
#include "runtime/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::memory {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(Budget, GivesOutNoMoreThanItsLimit) {
  const auto budget = Budget::create(device::cpu_device(), 1000 * 64);
  auto first = budget->allocate(600 * 64, Tag::arena, "first");
  ASSERT_TRUE(first.ok());
  const auto second = budget->allocate(401 * 64, Tag::outputs, "second");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::resource_exhausted);
  ASSERT_NE(second.status().shortage(), nullptr);
  EXPECT_EQ(second.status().shortage()->limit_bytes, 1000 * 64);
  EXPECT_EQ(second.status().shortage()->floor_bytes, 1001 * 64);
  EXPECT_EQ(second.status().shortage()->culprit, "second");
  EXPECT_TRUE(budget->allocate(400 * 64, Tag::outputs, "third").ok());
}

TEST(Budget, RoundsBytesUpToTheAlignment) {
  const auto budget = Budget::create(device::cpu_device(), kMiB);
  auto block = budget->allocate(1, Tag::constants, "one byte");
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(budget->statistics().used_bytes, device::kBufferAlignment);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % device::kBufferAlignment, 0u);
}

TEST(Budget, PeakRemembersTheHighestUseByTag) {
  const auto budget = Budget::create(device::cpu_device(), kMiB);
  {
    auto a = budget->allocate(128, Tag::arena, "a");
    auto b = budget->allocate(64, Tag::parameters, "b");
    ASSERT_TRUE(a.ok() && b.ok());
  }
  const Statistics statistics = budget->statistics();
  EXPECT_EQ(statistics.used_bytes, 0);
  EXPECT_EQ(statistics.peak_bytes, 192);
  EXPECT_EQ(statistics.peak_by_tag[static_cast<std::size_t>(Tag::arena)], 128);
  budget->reset_peak();
  EXPECT_EQ(budget->statistics().peak_bytes, 0);
}

TEST(Budget, ReturnedBlocksNeverCrowdOutAnAllocation) {
  const auto budget = Budget::create(device::cpu_device(), 4 * kMiB);
  for (const std::int64_t bytes : {kMiB, 2 * kMiB}) {
    ASSERT_TRUE(budget->allocate(bytes, Tag::arena, "block").ok());
  }
  EXPECT_EQ(budget->statistics().cached_bytes, 3 * kMiB);
  auto whole = budget->allocate(4 * kMiB, Tag::arena, "whole");
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(budget->statistics().cached_bytes, 0);
}

TEST(Budget, ReusesABlockOfTheSameSize) {
  const auto budget = Budget::create(device::cpu_device(), 4 * kMiB);
  void* data = nullptr;
  {
    auto block = budget->allocate(kMiB, Tag::arena, "block");
    ASSERT_TRUE(block.ok());
    data = block->data();
  }
  auto again = budget->allocate(kMiB, Tag::arena, "again");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->data(), data);
}

TEST(Budget, WhatIsKeptIsFoundAgainUntilTheRoomIsNeeded) {
  const auto budget = Budget::create(device::cpu_device(), kMiB);
  const int constants = 0, others = 0;
  const void* where = nullptr;
  {
    auto block = budget->allocate(1000, Tag::constants, "constants", {}, &constants);
    ASSERT_TRUE(block.ok());
    EXPECT_FALSE(block->holds_content());
    where = block->data();
    *static_cast<int*>(block->data()) = 42;
    block->keep();
    EXPECT_EQ(budget->statistics().used_bytes, 1024);
  }
  EXPECT_EQ(budget->statistics().used_bytes, 0);
  EXPECT_EQ(budget->statistics().cached_bytes, 1024);
  EXPECT_EQ(budget->available(), kMiB);
  {
    // While one uses it, another one gets memory of its own, and a key is not mistaken for another.
    auto block = budget->allocate(1000, Tag::constants, "constants", {}, &constants);
    auto second = budget->allocate(1000, Tag::constants, "constants", {}, &constants);
    auto other = budget->allocate(1000, Tag::constants, "others", {}, &others);
    ASSERT_TRUE(block.ok() && second.ok() && other.ok());
    EXPECT_TRUE(block->holds_content());
    EXPECT_EQ(block->data(), where);
    EXPECT_EQ(*static_cast<const int*>(block->data()), 42);
    EXPECT_FALSE(second->holds_content());
    EXPECT_FALSE(other->holds_content());
    EXPECT_EQ(budget->statistics().used_by_tag[static_cast<std::size_t>(Tag::constants)], 3072);
    second->keep();
    block->keep();
  }
  EXPECT_EQ(budget->statistics().cached_bytes, 1024);  // one of them
  {
    auto all = budget->allocate(kMiB, Tag::arena, "all");
    ASSERT_TRUE(all.ok()) << all.status().to_string();
    EXPECT_EQ(budget->statistics().cached_bytes, 0);
  }
  auto block = budget->allocate(1000, Tag::constants, "constants", {}, &constants);
  ASSERT_TRUE(block.ok());
  EXPECT_FALSE(block->holds_content());
  block->keep();
  *block = Allocation();
  EXPECT_GT(budget->statistics().cached_bytes, 0);
  budget->forget(&constants);
  EXPECT_FALSE(
      budget->allocate(1000, Tag::constants, "constants", {}, &constants)->holds_content());
}

TEST(Budget, InjectedFailureHitsTheNthAllocationOnly) {
  const auto budget = Budget::create(device::cpu_device(), kMiB);
  budget->fail_allocation(2);
  EXPECT_TRUE(budget->allocate(64, Tag::arena, "first").ok());
  EXPECT_FALSE(budget->allocate(64, Tag::arena, "second").ok());
  EXPECT_TRUE(budget->allocate(64, Tag::arena, "third").ok());
}

TEST(Budget, MovedAllocationsAreReturnedOnce) {
  const auto budget = Budget::create(device::cpu_device(), kMiB);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 10; ++i) {
    auto block = budget->allocate(64, Tag::arena, "block");
    ASSERT_TRUE(block.ok());
    blocks.push_back(std::move(block).value());
  }
  EXPECT_EQ(budget->statistics().used_bytes, 640);
  blocks[0] = std::move(blocks[1]);
  EXPECT_EQ(budget->statistics().used_bytes, 576);
  blocks.clear();
  EXPECT_EQ(budget->statistics().used_bytes, 0);
}

TEST(Budget, RetagMovesBytesBetweenTags) {
  const auto budget = Budget::create(device::cpu_device(), kMiB);
  auto block = budget->allocate(64, Tag::outputs, "block");
  ASSERT_TRUE(block.ok());
  block->retag(Tag::parameters);
  const Statistics statistics = budget->statistics();
  EXPECT_EQ(statistics.used_by_tag[static_cast<std::size_t>(Tag::outputs)], 0);
  EXPECT_EQ(statistics.used_by_tag[static_cast<std::size_t>(Tag::parameters)], 64);
}

}  // namespace
}  // namespace plimsoll::memory
