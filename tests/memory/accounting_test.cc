// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "runtime/device/cpu/cpu_device.h"
#include "runtime/memory/budget/admission.h"
#include "runtime/memory/budget/budget.h"

namespace plimsoll::memory {
namespace {

// Counts what it has given out.
class CountingDevice final : public device::Device {
 public:
  std::string_view name() const override { return "counting"; }
  std::int64_t total_bytes() const override { return cpu_->total_bytes(); }
  std::int64_t free_bytes() const override { return cpu_->free_bytes(); }
  device::Properties properties() const override { return cpu_->properties(); }
  Result<void*> allocate(std::int64_t bytes) override {
    given_out_ += bytes;
    ++blocks_;
    return cpu_->allocate(bytes);
  }
  void deallocate(void* pointer, std::int64_t bytes) override {
    given_out_ -= bytes;
    --blocks_;
    cpu_->deallocate(pointer, bytes);
  }
  Result<void*> allocate_host(std::int64_t bytes) override { return cpu_->allocate_host(bytes); }
  void deallocate_host(void* pointer, std::int64_t bytes) override {
    cpu_->deallocate_host(pointer, bytes);
  }
  Result<std::unique_ptr<device::Stream>> create_stream() override { return cpu_->create_stream(); }
  Result<std::unique_ptr<device::Event>> create_event() override { return cpu_->create_event(); }
  std::int64_t given_out() const { return given_out_; }
  std::int64_t blocks() const { return blocks_; }

 private:
  const std::shared_ptr<device::Device> cpu_ = device::cpu_device();
  std::int64_t given_out_ = 0, blocks_ = 0;
};

template <typename List>
std::int64_t sum(const List& list) {
  return std::accumulate(list.begin(), list.end(), std::int64_t{0});
}

void expect_sums(const Budget& budget, const CountingDevice& device) {
  const Statistics now = budget.statistics();
  ASSERT_EQ(now.used_bytes + now.cached_bytes, device.given_out());
  ASSERT_EQ(sum(now.used_by_tag), now.used_bytes);
  ASSERT_EQ(sum(now.used_by_use), now.used_bytes);
  ASSERT_EQ(sum(now.peak_by_tag), now.peak_bytes);
  ASSERT_EQ(sum(now.peak_by_use), now.peak_bytes);
  for (const std::int64_t bytes : now.used_by_use) ASSERT_GE(bytes, 0);
  for (const std::int64_t bytes : now.peak_by_use) ASSERT_GE(bytes, 0);
  ASSERT_GE(now.peak_bytes, now.used_bytes);
}

// Constants may have no elements, and are kept all the same.
TEST(Accounting, BlocksWithoutBytesGoBackToTheDevice) {
  const auto device = std::make_shared<CountingDevice>();
  auto budget = Budget::create(device, 1 << 20);
  static constexpr char kKey = 0;
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{4096}, std::int64_t{0}}) {
    auto block = budget->allocate(bytes, Tag::constants, "block", {}, &kKey + (bytes == 0 ? 0 : 1));
    ASSERT_TRUE(block.ok()) << block.status().to_string();
    block->keep();
  }
  EXPECT_EQ(device->blocks(), 2);
  budget.reset();
  EXPECT_EQ(device->blocks(), 0);
}

TEST(Accounting, SumsAreWhatTheDeviceGaveOutAtEveryStep) {
  const auto device = std::make_shared<CountingDevice>();
  const auto budget = Budget::create(device, std::int64_t{64} << 20);
  std::mt19937_64 random(5);
  std::vector<Allocation> live;
  std::optional<Admitted> run;
  int refused = 0;
  for (int step = 0; step < 4000; ++step) {
    const auto bytes = static_cast<std::int64_t>(random() % (std::size_t{4} << 20));
    const Tag tag = static_cast<Tag>(random() % kTagCount);
    ArenaParts parts;
    if (tag == Tag::arena) parts = {bytes / 8, bytes / 10, bytes / 14};
    switch (random() % 6) {
      case 0:
      case 1: {
        // Some are to be kept, under a few keys.
        static constexpr char kKeys[5] = {};
        const ContentKey key = random() % 3 == 0 ? &kKeys[random() % 5] : nullptr;
        auto block = budget->allocate(bytes, tag, "block", parts, key);
        if (block.ok() && key != nullptr) block->keep();
        if (random() % 20 == 0) budget->forget(&kKeys[0]);
        if (block.ok()) live.push_back(std::move(*block));
        refused += block.ok() ? 0 : 1;
        break;
      }
      case 2: {
        if (!run) {
          auto admitted = budget->admission().admit({bytes * 2, 0, 0}, "run", {}, false);
          if (admitted.ok()) run = std::move(*admitted);
          break;
        }
        auto block = run->reservation().allocate(bytes / 2, tag, "drawn", parts);
        if (block.ok()) live.push_back(std::move(*block));
        break;
      }
      case 3:
        run.reset();
        break;
      case 4:
        if (!live.empty()) live[random() % live.size()].retag(tag);
        break;
      default:
        for (int i = 0; i < 2 && !live.empty(); ++i) {
          live[random() % live.size()] = std::move(live.back());
          live.pop_back();
        }
        break;
    }
    if (step % 500 == 499) budget->reset_peak();
    ASSERT_NO_FATAL_FAILURE(expect_sums(*budget, *device)) << step;
  }
  EXPECT_GT(refused, 0);
  live.clear();
  run.reset();
  expect_sums(*budget, *device);
  EXPECT_EQ(budget->statistics().used_bytes, 0);
}

TEST(Accounting, AnArenaIsTakenApart) {
  const auto budget = Budget::create(device::cpu_device(), 1 << 20);
  {
    auto arena = budget->allocate(640, Tag::arena, "arena", {64, 128, 192});
    auto output = budget->allocate(64, Tag::outputs, "output");
    ASSERT_TRUE(arena.ok() && output.ok());
    const Statistics now = budget->statistics();
    const auto used = [&](Use use) { return now.used_by_use[static_cast<std::size_t>(use)]; };
    EXPECT_EQ(used(Use::workspaces), 64);
    EXPECT_EQ(used(Use::encoded), 128);
    EXPECT_EQ(used(Use::staging), 192);
    EXPECT_EQ(used(Use::activations), 256 + 64);
    EXPECT_EQ(now.used_by_tag[static_cast<std::size_t>(Tag::arena)], 640);
  }
  const Statistics after = budget->statistics();
  EXPECT_EQ(after.peak_by_use[static_cast<std::size_t>(Use::encoded)], 128);
  budget->reset_peak();
  EXPECT_EQ(sum(budget->statistics().peak_by_use), 0);
}

}  // namespace
}  // namespace plimsoll::memory
