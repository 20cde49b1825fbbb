// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/device/devices.h"
#include "runtime/memory/tiers/tier.h"

namespace plimsoll::trace {

// Host memory whose transfers are counted, and wait for what a test has in mind.
class GatedTier final : public memory::Tier {
 public:
  struct Counts {
    int stores_begun = 0, stores_ended = 0, loads_begun = 0, loads_ended = 0;
  };
  using Condition = std::function<bool(const Counts&)>;

  static std::shared_ptr<GatedTier> create(std::int64_t limit_bytes) {
    std::shared_ptr<GatedTier> tier(new GatedTier(limit_bytes));
    tier->set_speed({1e9, 1e9, 1e-6, 0});
    return tier;
  }
  Result<memory::LinkSpeed> measure() override { return memory::LinkSpeed{1e9, 1e9, 1e-6, 0}; }

  // From now on stores, respectively loads, wait for it; null: for nothing.
  void gate_stores(Condition condition) { set(store_gate_, std::move(condition)); }
  void gate_loads(Condition condition) { set(load_gate_, std::move(condition)); }
  // Stores that are not let through any more fail.
  void fail_stores() {
    const std::lock_guard lock(counts_mutex_);
    fails_ = true;
    changed_.notify_all();
  }
  // False where it never comes to that.
  bool wait_for(const Condition& condition) {
    std::unique_lock lock(counts_mutex_);
    return changed_.wait_for(lock, kForever, [&] { return condition(counts_); });
  }
  Counts counts() {
    const std::lock_guard lock(counts_mutex_);
    return counts_;
  }

 protected:
  Result<std::unique_ptr<memory::TierBlock>> allocate_block(std::int64_t bytes) override {
    auto self = std::static_pointer_cast<GatedTier>(shared_from_this());
    return std::unique_ptr<memory::TierBlock>(std::make_unique<Block>(std::move(self), bytes));
  }

 private:
  // A test that waits in vain ends.
  static constexpr std::chrono::seconds kForever{60};

  class Block final : public memory::TierBlock {
   public:
    Block(std::shared_ptr<GatedTier> tier, std::int64_t bytes)
        : tier_(std::move(tier)), bytes_(static_cast<std::size_t>(bytes)) {}
    ~Block() override {
      const std::lock_guard lock(tier_->mutex());
      tier_->give_back(static_cast<std::int64_t>(bytes_.size()));
    }
    Status store(std::int64_t offset, const void* from, std::int64_t bytes,
                 device::Stream& stream) override {
      PLIMSOLL_RETURN_IF_ERROR(tier_->pass(tier_->store_gate_, &Counts::stores_begun));
      PLIMSOLL_RETURN_IF_ERROR(
          stream.copy(bytes_.data() + offset, from, bytes, device::CopyKind::device_to_host));
      PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
      return tier_->count(&Counts::stores_ended);
    }
    Status load(std::int64_t offset, void* to, std::int64_t bytes,
                device::Stream& stream) override {
      PLIMSOLL_RETURN_IF_ERROR(tier_->pass(tier_->load_gate_, &Counts::loads_begun));
      PLIMSOLL_RETURN_IF_ERROR(
          stream.copy(to, bytes_.data() + offset, bytes, device::CopyKind::host_to_device));
      PLIMSOLL_RETURN_IF_ERROR(stream.synchronize());
      return tier_->count(&Counts::loads_ended);
    }

   private:
    const std::shared_ptr<GatedTier> tier_;
    std::vector<std::byte> bytes_;
  };

  explicit GatedTier(std::int64_t limit_bytes)
      : Tier("a gated tier", limit_bytes, device::default_device()) {}

  void set(Condition& gate, Condition condition) {
    const std::lock_guard lock(counts_mutex_);
    gate = std::move(condition);
    changed_.notify_all();
  }
  Status pass(const Condition& gate, int Counts::* begun) {
    std::unique_lock lock(counts_mutex_);
    ++(counts_.*begun);
    changed_.notify_all();
    const auto open = [&] { return gate == nullptr || gate(counts_); };
    const bool stores = &gate == &store_gate_;
    const bool came =
        changed_.wait_for(lock, kForever, [&] { return (stores && fails_) || open(); });
    EXPECT_TRUE(came) << "waited in vain";
    return came && open() ? ok_status() : unavailable("the gate stayed shut");
  }
  Status count(int Counts::* ended) {
    const std::lock_guard lock(counts_mutex_);
    ++(counts_.*ended);
    changed_.notify_all();
    return ok_status();
  }

  std::mutex counts_mutex_;
  std::condition_variable changed_;
  Counts counts_;
  Condition store_gate_, load_gate_;
  bool fails_ = false;
};

}  // namespace plimsoll::trace
