// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers/tier.h"
#include "runtime/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/memory/tiers.h"
#include "tests/memory/tier_transfers.h"

namespace plimsoll::memory {
namespace {

class EveryTier : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Tier> make(std::int64_t limit) {
    if (GetParam()) return HostTier::create(device::cpu_device(), limit);
    return spill_file(folder_, limit);
  }
  Folder folder_;
};

TEST_P(EveryTier, GivesBackWhatWasStored) {
  const auto tier = make(8 * kMiB);
  const auto block = tier->allocate(4 * kMiB, "a block");
  ASSERT_TRUE(block.ok()) << block.status().to_string();
  // Sizes around the pieces that transfers are cut into.
  std::int64_t offset = 0;
  std::vector<std::pair<std::int64_t, Bytes>> stored;
  for (const std::int64_t size : {std::int64_t{1}, kMiB - 1, kMiB, kMiB + 64}) {
    stored.emplace_back(offset, random_bytes(size, static_cast<unsigned>(size)));
    ASSERT_TRUE(store(*tier, **block, offset, stored.back().second).ok());
    offset += (size + 63) / 64 * 64;
  }
  for (const auto& [at, bytes] : stored) {
    Bytes back(bytes.size());
    const Status status = load(*tier, **block, at, back);
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(back, bytes);
  }
  const TierStatistics statistics = tier->statistics();
  EXPECT_EQ(statistics.out.transfers, 4);
  EXPECT_EQ(statistics.in.bytes, 3 * kMiB + 64);
  EXPECT_GT(statistics.in.busy_seconds, 0);
}

TEST_P(EveryTier, GivesOutNoMoreThanItsLimit) {
  const auto tier = make(2 * kMiB);
  {
    const auto first = tier->allocate(kMiB + 1, "first");
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(tier->statistics().used_bytes, kMiB + 64);
    const auto second = tier->allocate(kMiB, "second");
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), StatusCode::resource_exhausted);
    ASSERT_NE(second.status().shortage(), nullptr);
    EXPECT_EQ(second.status().shortage()->limit_bytes, 2 * kMiB);
    EXPECT_EQ(second.status().shortage()->floor_bytes, 2 * kMiB + 64);
    EXPECT_EQ(second.status().shortage()->culprit, "second");
  }
  EXPECT_EQ(tier->statistics().used_bytes, 0);
  EXPECT_EQ(tier->statistics().peak_bytes, kMiB + 64);
  EXPECT_TRUE(tier->allocate(2 * kMiB, "all of it").ok());
}

TEST_P(EveryTier, ManyBlocksFitIntoWhatOthersLeft) {
  const auto tier = make(4 * kMiB);
  std::mt19937 random(3);
  std::vector<std::unique_ptr<TierBlock>> held;
  std::vector<Bytes> contents;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t size = 64 * (1 + random() % 4000);
    auto block = tier->allocate(size, "block");
    if (!block.ok()) {
      const std::size_t victim = random() % held.size();
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(victim));
      contents.erase(contents.begin() + static_cast<std::ptrdiff_t>(victim));
      continue;
    }
    held.push_back(std::move(block).value());
    contents.push_back(random_bytes(size, static_cast<unsigned>(i)));
    ASSERT_TRUE(store(*tier, *held.back(), 0, contents.back()).ok());
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    Bytes back(contents[i].size());
    ASSERT_TRUE(load(*tier, *held[i], 0, back).ok());
    EXPECT_EQ(back, contents[i]);
  }
  held.clear();
  EXPECT_EQ(tier->statistics().used_bytes, 0);
  EXPECT_TRUE(tier->allocate(4 * kMiB, "all of it again").ok());
}

TEST_P(EveryTier, TransfersFromManyThreadsDoNotMeet) {
  const auto tier = make(8 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Bytes bytes = random_bytes(kMiB, t);
      for (int round = 0; round < 3; ++round) {
        auto block = tier->allocate(kMiB, "thread");
        Bytes back(bytes.size());
        if (block.ok() && store(*tier, **block, 0, bytes).ok() &&
            load(*tier, **block, 0, back).ok() && back == bytes) {
          ++right;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 12);
}

TEST_P(EveryTier, AnInjectedFailureIsOneFailure) {
  const auto tier = make(kMiB);
  tier->fail_allocation(1);
  EXPECT_EQ(tier->allocate(64, "x").status().code(), StatusCode::resource_exhausted);
  const auto block = tier->allocate(64, "x");
  ASSERT_TRUE(block.ok());
  Bytes bytes = random_bytes(64, 1);
  tier->out().fail_transfer(2);
  EXPECT_TRUE(store(*tier, **block, 0, bytes).ok());
  EXPECT_EQ(store(*tier, **block, 0, bytes).code(), StatusCode::unavailable);
  EXPECT_TRUE(store(*tier, **block, 0, bytes).ok());
}

TEST_P(EveryTier, KnowsHowFastItIs) {
  const auto tier = make(2 * kMiB);
  const auto speed = tier->speed();
  ASSERT_TRUE(speed.ok()) << speed.status().to_string();
  EXPECT_GT(speed->out_bytes_per_second, 1e6);
  EXPECT_GT(speed->in_bytes_per_second, 1e6);
  EXPECT_GT(speed->latency_seconds, 0);
  // Measuring leaves nothing behind.
  EXPECT_EQ(tier->statistics().peak_bytes, 0);
  tier->set_speed({1, 2, 3});
  EXPECT_EQ(tier->speed()->in_bytes_per_second, 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EveryTier, ::testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "Host" : "Disk");
});

TEST(Tier, KeepsBytesForBlocksToCome) {
  const auto tier = HostTier::create(device::cpu_device(), 1024);
  {
    auto reservation = tier->reserve(700, "a test");
    ASSERT_TRUE(reservation.ok()) << reservation.status().to_string();
    EXPECT_EQ(tier->statistics().reserved_bytes, 704);
    EXPECT_EQ(tier->statistics().used_bytes, 0);
    const auto other = tier->allocate(512, "another");
    EXPECT_EQ(other.status().code(), StatusCode::resource_exhausted);
    const auto block = tier->allocate(500, "a part of it", *reservation);
    ASSERT_TRUE(block.ok()) << block.status().to_string();
    EXPECT_EQ(tier->statistics().reserved_bytes, 192);
    EXPECT_EQ(tier->statistics().used_bytes, 512);
    EXPECT_EQ(tier->allocate(256, "more", *reservation).status().code(), StatusCode::internal);
    TierReservation moved = std::move(*reservation);
    moved.close();
    EXPECT_TRUE(tier->allocate(512, "another").ok());
  }
  EXPECT_EQ(tier->statistics().reserved_bytes, 0);
  EXPECT_EQ(tier->statistics().used_bytes, 0);
  tier->fail_allocation(1);
  EXPECT_FALSE(tier->reserve(64, "a test").ok());
}

TEST(TransferEngine, RunsTransfersInTheirOrder) {
  TransferEngine engine("test", device::cpu_device());
  std::vector<int> order;
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (int i = 0; i < 50; ++i) {
    transfers.push_back(engine.enqueue(1, [&order, i](device::Stream&) {
      order.push_back(i);
      return i == 20 ? data_loss("twenty") : ok_status();
    }));
  }
  for (int i = 49; i >= 0; --i) {
    EXPECT_EQ(engine.wait(*transfers[static_cast<std::size_t>(i)]).ok(), i != 20);
  }
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(TransferEngine, MayGoOnItsOwnThread) {
  auto engine = std::make_shared<TransferEngine>("test", device::cpu_device());
  TransferEngine& itself = *engine;
  const std::weak_ptr<TransferEngine> watched = engine;
  std::atomic<bool> go = false;
  // The work holds the last reference to the engine that does it.
  itself.enqueue(1, [held = std::move(engine), &go](device::Stream&) {
    while (!go) std::this_thread::yield();
    return ok_status();
  });
  EXPECT_FALSE(watched.expired());
  go = true;
  while (!watched.expired()) std::this_thread::yield();
}

TEST(TransferEngine, TellsWhatCameOfATransferBeforeTheWaitEnds) {
  TransferEngine engine("test", device::cpu_device());
  for (const bool fails : {false, true}) {
    Status told = invalid_argument("not told");
    const auto transfer = engine.enqueue(
        1, [&](device::Stream&) { return fails ? data_loss("it") : ok_status(); },
        [&](const Status& status) { told = status; });
    const Status waited = engine.wait(*transfer);
    EXPECT_EQ(told.to_string(), waited.to_string());
    EXPECT_EQ(waited.ok(), !fails);
  }
}

TEST(TransferEngine, FinishesWhatWasEnqueuedBeforeItGoes) {
  std::atomic<int> ran{0};
  {
    TransferEngine engine("test", device::cpu_device());
    for (int i = 0; i < 10; ++i) {
      (void)engine.enqueue(1, [&](device::Stream&) {
        ++ran;
        return ok_status();
      });
    }
  }
  EXPECT_EQ(ran.load(), 10);
}

TEST(Checksum, SeesEveryFlippedBit) {
  Bytes bytes = random_bytes(200, 9);
  const auto of = [&] {
    Checksum checksum;
    checksum.add(bytes);
    return checksum.value();
  };
  const std::uint64_t right = of();
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_NE(of(), right) << bit;
    bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
  EXPECT_EQ(of(), right);
}

TEST(Checksum, KnowsHowLongItIs) {
  Checksum one, two;
  const Bytes zeros(2);
  one.add(std::span(zeros).first(1));
  two.add(zeros);
  EXPECT_NE(one.value(), two.value());
}

}  // namespace
}  // namespace plimsoll::memory
