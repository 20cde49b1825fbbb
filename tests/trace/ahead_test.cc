// SPDX-License-Identifier: Apache-2.0
// A worker's transfers begin ahead of their turn, where that takes nothing from what comes before.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "runtime/device/devices.h"
#include "runtime/ir/text/text.h"
#include "runtime/residency/execution.h"
#include "tests/executor/test_provider.h"
#include "tests/trace/gated_tier.h"

namespace plimsoll::trace {
namespace {

using Counts = GatedTier::Counts;
using Shared = std::shared_ptr<Value>;

constexpr std::int64_t kKiB = 1 << 10;

class Ahead : public ::testing::Test {
 protected:
  void start(std::int64_t limit_bytes) {
    tier_ = GatedTier::create(64 * kKiB);
    memory::Tiers tiers;
    tiers.host = tier_;
    budget_ = memory::Budget::create(device::default_device(), limit_bytes, tiers);
    auto provider = create_provider();
    ASSERT_TRUE(provider.ok());
    provider_ = std::move(*provider);
    worker_ = std::make_unique<Worker>(budget_);
  }
  void TearDown() override {
    if (tier_ == nullptr) return;
    tier_->gate_stores(nullptr);
    tier_->gate_loads(nullptr);
    worker_.reset();
    if (budget_ != nullptr) {
      EXPECT_LE(budget_->statistics().peak_bytes, budget_->limit());
      EXPECT_EQ(budget_->admission().statistics().running, 0);
    }
  }

  // On the device, every float the same.
  Shared value(std::int64_t bytes, float of) {
    auto made = std::make_shared<Value>();
    made->bytes = bytes;
    auto room = budget_->allocate(bytes, memory::Tag::outputs, "a test");
    EXPECT_TRUE(room.ok()) << room.status().to_string();
    made->device = std::move(*room);
    const std::vector<float> floats(static_cast<std::size_t>(bytes / 4), of);
    copy(made->device.data(), floats.data(), bytes, device::CopyKind::host_to_device);
    return made;
  }
  Shared stored(std::int64_t bytes, float of) {
    auto made = value(bytes, of);
    EXPECT_TRUE(worker_->store(made, *tier_).ok());
    worker_->wait_idle();
    EXPECT_FALSE(made->device);
    return made;
  }
  // The negated value, so many times.
  Shared run(const Shared& from, std::int64_t times, Shared made = nullptr,
             planner::ParameterResidency residency = planner::ParameterResidency::resident) {
    const std::string floats = std::to_string(from->bytes / 4), copies = std::to_string(times);
    auto module =
        ir::parse_module("HloModule m\nENTRY e {\n  x = f32[" + floats +
                         "] parameter(0)\n  n = f32[" + floats + "] negate(x)\n  ROOT r = f32[" +
                         copies + "," + floats + "] broadcast(n), dimensions={1}\n}\n");
    EXPECT_TRUE(module.ok()) << module.status().to_string();
    auto program = executor::Program::create(std::move(*module), *provider_, {});
    EXPECT_TRUE(program.ok()) << program.status().to_string();
    const planner::Question question{planner::kUnlimited, {residency}, {}};
    auto executable = executor::make_executable(*program, {}, question, *budget_);
    EXPECT_TRUE(executable.ok()) << executable.status().to_string();
    if (made == nullptr) made = std::make_shared<Value>();
    made->bytes = times * from->bytes;
    auto execution = std::make_shared<Execution>();
    execution->executable = *executable;
    execution->parameters = {from};
    execution->outputs = {made};
    execution->output_bytes = {made->bytes};
    execution->output_tags = {memory::Tag::outputs};
    const bool in_place = residency == planner::ParameterResidency::donated;
    EXPECT_EQ(execution->needed_bytes(), in_place ? 0 : made->bytes);
    EXPECT_TRUE(worker_->submit(std::move(execution)).ok());
    return made;
  }
  void expect(const Shared& value, float of) {
    const Status status = worker_->wait(value);
    ASSERT_TRUE(status.ok()) << status.to_string();
    ASSERT_TRUE(value->device);
    std::vector<float> floats(static_cast<std::size_t>(value->bytes / 4));
    copy(floats.data(), value->device.data(), value->bytes, device::CopyKind::device_to_host);
    for (std::size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(floats[i], of) << i;
  }
  void copy(void* to, const void* from, std::int64_t bytes, device::CopyKind kind) {
    const auto stream = budget_->device().create_stream();
    ASSERT_TRUE(stream.ok());
    ASSERT_TRUE((*stream)->copy(to, from, bytes, kind).ok());
    ASSERT_TRUE((*stream)->synchronize().ok());
  }

  std::shared_ptr<GatedTier> tier_;
  std::shared_ptr<memory::Budget> budget_;
  std::shared_ptr<device::KernelProvider> provider_;
  std::unique_ptr<Worker> worker_;
};

TEST_F(Ahead, AStoreBeginsBesideWhatIsBeforeIt) {
  start(64 * kKiB);
  const Shared a = stored(kKiB, 2), b = value(kKiB, 3);
  // What the first run reads comes only when the store behind it has begun.
  tier_->gate_loads([](const Counts& now) { return now.stores_begun == 2; });
  ASSERT_TRUE(worker_->load(a, *tier_).ok());
  const Shared made = run(a, 2);
  ASSERT_TRUE(worker_->store(b, *tier_).ok());
  expect(made, -2);
  worker_->wait_idle();
  EXPECT_FALSE(b->device);
  ASSERT_TRUE(worker_->load(b, *tier_).ok());
  expect(b, 3);
}

TEST_F(Ahead, AStoreWaitsForItsValueOnly) {
  start(64 * kKiB);
  const Shared a = stored(kKiB, 2), b = stored(kKiB, 5);
  tier_->gate_loads(
      [](const Counts& now) { return now.loads_begun == 1 || now.stores_begun == 3; });
  ASSERT_TRUE(worker_->load(a, *tier_).ok());
  // Else the load of b, which has room beside it, might be the first one.
  ASSERT_TRUE(tier_->wait_for([](const Counts& now) { return now.loads_begun == 1; }));
  const Shared made = run(a, 1);
  ASSERT_TRUE(worker_->load(b, *tier_).ok());  // ends when a store has begun
  const Shared last = run(b, 1);
  ASSERT_TRUE(worker_->store(made, *tier_).ok());
  expect(last, -5);
  ASSERT_TRUE(worker_->load(made, *tier_).ok());
  expect(made, -2);
}

TEST_F(Ahead, ALoadBeginsWhereThereIsRoom) {
  start(7 * kKiB);
  const Shared b = stored(kKiB, 3), a = value(kKiB, 2), x = value(4 * kKiB, 1);
  // The run waits for this room; beside it there is enough for what comes back after it.
  tier_->gate_stores([](const Counts& now) { return now.loads_begun == 1; });
  ASSERT_TRUE(worker_->store(x, *tier_).ok());
  const Shared made = run(a, 4);
  ASSERT_TRUE(worker_->load(b, *tier_).ok());
  const Shared last = run(b, 1);
  expect(made, -2);
  expect(last, -3);
  worker_->wait_idle();
  EXPECT_EQ(tier_->counts().loads_ended, 1);
}

TEST_F(Ahead, ALoadTakesNoRoomThatIsNeededBeforeIt) {
  start(6 * kKiB);
  const Shared b = stored(kKiB, 3), a = value(kKiB, 2), x = value(4 * kKiB, 1);
  tier_->gate_stores([](const Counts& now) { return now.stores_begun < 0; });
  ASSERT_TRUE(worker_->store(x, *tier_).ok());
  const Shared made = run(a, 5);  // of all the room there is
  ASSERT_TRUE(worker_->load(b, *tier_).ok());
  EXPECT_EQ(tier_->counts().loads_begun, 0);
  EXPECT_EQ(budget_->available(), kKiB);
  tier_->gate_stores(nullptr);
  expect(made, -2);
  EXPECT_EQ(worker_->wait(b).code(), StatusCode::resource_exhausted);
  ASSERT_TRUE(worker_->drop(made).ok());
  ASSERT_TRUE(worker_->load(b, *tier_).ok());
  expect(b, 3);
}

TEST_F(Ahead, ALoadGivesItsRoomBack) {
  start(7 * kKiB);
  const Shared b = stored(kKiB, 3), a = value(kKiB, 2), x = value(4 * kKiB, 1);
  tier_->gate_stores([](const Counts& now) { return now.stores_begun < 0; });
  ASSERT_TRUE(worker_->store(x, *tier_).ok());
  const Shared made = run(a, 2);
  ASSERT_TRUE(worker_->drop(a).ok());
  ASSERT_TRUE(worker_->load(b, *tier_).ok());
  ASSERT_TRUE(tier_->wait_for([](const Counts& now) { return now.loads_ended == 1; }));
  EXPECT_EQ(budget_->available(), kKiB);
  EXPECT_EQ(budget_->admission().statistics().running, 1);
  // The room that the run was to have does not come: it takes that of the load.
  tier_->fail_stores();
  expect(made, -2);
  expect(b, 3);
  EXPECT_EQ(tier_->counts().loads_ended, 2);
  const Failures failures = worker_->take_failures();
  ASSERT_EQ(failures.stores.size(), 1U);
  EXPECT_EQ(failures.stores[0], x);
  expect(x, 1);
}

TEST_F(Ahead, AFailedRunSaysWhyOnceAndIsThenTriedAgain) {
  start(64 * kKiB);
  const Shared a = value(kKiB, 2);
  budget_->fail_allocation(1);
  const Shared made = run(a, 1);
  worker_->wait_idle();
  EXPECT_EQ(worker_->wait(made).code(), StatusCode::resource_exhausted);
  expect(made, -2);
}

// What would overwrite the data of one that failed is not run before that one's second try, and
// says why that one failed.
TEST_F(Ahead, ARunThatDonatesWhatAFailedOneReadsSaysWhyThatFailed) {
  start(64 * kKiB);
  const Shared a = value(kKiB, 2);
  budget_->fail_allocation(1);
  const Shared made = run(a, 1);
  const Shared last = run(a, 1, nullptr, planner::ParameterResidency::donated);
  worker_->wait_idle();
  EXPECT_EQ(worker_->wait(made).code(), StatusCode::resource_exhausted);
  const Status status = worker_->wait(last);
  EXPECT_EQ(status.code(), StatusCode::resource_exhausted);
  EXPECT_NE(status.message().find("an earlier execution of the same data failed"),
            std::string::npos)
      << status.to_string();
  expect(made, -2);
}

// Of what is going to be made twice, the first time failed: what reads it then says why.
TEST_F(Ahead, AMissingInputThatWillBeMadeOnceMoreSaysWhy) {
  start(64 * kKiB);
  const Shared a = stored(kKiB, 2);
  tier_->gate_loads([](const Counts& now) { return now.loads_begun < 0; });
  ASSERT_TRUE(worker_->load(a, *tier_).ok());
  const Shared made = run(a, 1), last = run(made, 1);
  run(a, 1, made);
  ASSERT_TRUE(tier_->wait_for([](const Counts& now) { return now.loads_begun == 1; }));
  budget_->fail_allocation(1);
  tier_->gate_loads(nullptr);
  EXPECT_EQ(worker_->wait(last).code(), StatusCode::resource_exhausted);
  expect(made, -2);
  expect(last, 2);
}

// A run of somebody else's waits for a load that is not due as for any other run, and comes first.
TEST_F(Ahead, ALoadLetsOthersThrough) {
  start(7 * kKiB);
  const Shared b = stored(kKiB, 3), a = value(kKiB, 2), x = value(4 * kKiB, 1);
  tier_->gate_stores([](const Counts& now) { return now.stores_begun < 0; });
  ASSERT_TRUE(worker_->store(x, *tier_).ok());
  const Shared made = run(a, 2);
  ASSERT_TRUE(worker_->load(b, *tier_).ok());
  ASSERT_TRUE(tier_->wait_for([](const Counts& now) { return now.loads_ended == 1; }));
  Status other;
  std::thread waiter([&] {
    const auto admitted = budget_->admission().admit({2 * kKiB, 0, 0}, "another run");
    other = admitted.status();
  });
  while (budget_->admission().statistics().waiting == 0) std::this_thread::yield();
  tier_->gate_stores(nullptr);
  expect(made, -2);
  expect(b, 3);
  waiter.join();
  EXPECT_TRUE(other.ok()) << other.to_string();
}

}  // namespace
}  // namespace plimsoll::trace
