// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/budget/admission.h"
#include "runtime/device/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace plimsoll::memory {
namespace {

constexpr std::int64_t kUnit = 64;

std::shared_ptr<Budget> budget_of(std::int64_t units) {
  return Budget::create(device::cpu_device(), units * kUnit);
}

BytesPerSpace units(std::int64_t count) { return {count * kUnit, 0, 0}; }

// Asks on a thread of its own, which is there when the constructor returns, in the queue or let in.
class Asker {
 public:
  Asker(Budget& budget, std::int64_t count, Stop stop = {}) {
    const std::int64_t before = seen(budget);
    thread_ = std::thread([this, &budget, count, stop] {
      auto admitted = budget.admission().admit(units(count), "asker", stop);
      status_ = admitted.status();
      if (admitted.ok()) entry_ = std::move(*admitted);
      done_ = true;
    });
    while (seen(budget) == before && !done_) std::this_thread::yield();
  }
  ~Asker() { join(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  bool done() const { return done_; }
  const Status& status() {
    join();
    return status_;
  }
  Admitted& entry() {
    join();
    return *entry_;
  }
  void leave() {
    join();
    entry_.reset();
  }

 private:
  static std::int64_t seen(Budget& budget) {
    const AdmissionStatistics now = budget.admission().statistics();
    return now.waiting + now.admitted;
  }
  std::thread thread_;
  std::atomic<bool> done_{false};
  Status status_;
  std::optional<Admitted> entry_;
};

TEST(Admission, ReservesWhatNobodyElseCanTake) {
  const auto budget = budget_of(10);
  auto run = budget->admission().admit(units(6), "run");
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(budget->available(), 4 * kUnit);
  EXPECT_EQ(budget->statistics().used_bytes, 0);
  EXPECT_EQ(budget->statistics().reserved_bytes, 6 * kUnit);
  EXPECT_FALSE(budget->allocate(5 * kUnit, Tag::outputs, "tensor").ok());
  const auto tensor = budget->allocate(4 * kUnit, Tag::outputs, "tensor");
  ASSERT_TRUE(tensor.ok());
  const auto drawn = run->reservation().allocate(6 * kUnit, Tag::arena, "arena");
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(budget->statistics().used_bytes, 10 * kUnit);
  EXPECT_EQ(budget->statistics().reserved_bytes, 0);
  EXPECT_EQ(run->reservation().allocate(1, Tag::arena, "more").status().code(),
            StatusCode::internal);
}

TEST(Admission, WhatWasDrawnComesBackToTheReservationUntilItCloses) {
  const auto budget = budget_of(10);
  std::optional<Admitted> run;
  run.emplace(std::move(*budget->admission().admit(units(6), "run")));
  {
    ASSERT_TRUE(run->reservation().allocate(6 * kUnit, Tag::arena, "arena").ok());
  }
  EXPECT_EQ(budget->statistics().reserved_bytes, 6 * kUnit);
  auto result = run->reservation().allocate(2 * kUnit, Tag::outputs, "result");
  ASSERT_TRUE(result.ok());
  run.reset();
  EXPECT_EQ(budget->statistics().reserved_bytes, 0);
  EXPECT_EQ(budget->statistics().used_bytes, 2 * kUnit);
  EXPECT_EQ(budget->available_when_idle(), 8 * kUnit);
  *result = Allocation();
  EXPECT_EQ(budget->statistics().used_bytes, 0);
  EXPECT_EQ(budget->available(), 10 * kUnit);
}

TEST(Admission, WaitsUntilOthersEnd) {
  const auto budget = budget_of(10);
  std::optional<Admitted> first;
  first.emplace(std::move(*budget->admission().admit(units(6), "first")));
  Asker second(*budget, 5);
  EXPECT_FALSE(second.done());
  EXPECT_EQ(budget->admission().statistics().waiting, 1);
  first.reset();
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(budget->admission().statistics().waited, 1);
  second.leave();
  EXPECT_EQ(budget->available(), 10 * kUnit);
}

TEST(Admission, RefusesAtOnceWhatNoEndingRunCouldMakeRoomFor) {
  const auto budget = budget_of(10);
  const auto tensor = budget->allocate(4 * kUnit, Tag::parameters, "tensor");
  ASSERT_TRUE(tensor.ok());
  auto running = budget->admission().admit(units(3), "running");
  ASSERT_TRUE(running.ok());
  const auto refused = budget->admission().admit(units(7), "large");
  ASSERT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  ASSERT_NE(refused.status().shortage(), nullptr);
  EXPECT_EQ(refused.status().shortage()->limit_bytes, 10 * kUnit);
  EXPECT_EQ(refused.status().shortage()->floor_bytes, 11 * kUnit);
  EXPECT_EQ(refused.status().shortage()->culprit, "large");
  EXPECT_EQ(budget->admission().statistics().refused, 1);
}

TEST(Admission, DoesNotWaitWhereItMayNot) {
  const auto budget = budget_of(10);
  auto running = budget->admission().admit(units(6), "running");
  ASSERT_TRUE(running.ok());
  const auto refused = budget->admission().admit(units(5), "second", {}, false);
  EXPECT_EQ(refused.status().code(), StatusCode::resource_exhausted);
  EXPECT_EQ(refused.status().shortage()->floor_bytes, 11 * kUnit);
  EXPECT_TRUE(budget->admission().admit(units(4), "third", {}, false).ok());
}

TEST(Admission, ALoweredLimitRefusesThoseThatWaitAndLeavesThoseThatRun) {
  const auto budget = budget_of(10);
  auto running = budget->admission().admit(units(6), "running");
  ASSERT_TRUE(running.ok());
  Asker waiting(*budget, 5);
  budget->set_limit(4 * kUnit);
  EXPECT_EQ(waiting.status().code(), StatusCode::resource_exhausted);
  EXPECT_EQ(waiting.status().shortage()->limit_bytes, 4 * kUnit);
  const auto drawn = running->reservation().allocate(6 * kUnit, Tag::arena, "arena");
  EXPECT_TRUE(drawn.ok());
}

TEST(Admission, OneThatNeedsNothingRunsUnderALimitThatWasLoweredBelowWhatIsInUse) {
  const auto budget = budget_of(10);
  const auto in_use = budget->allocate(8 * kUnit, Tag::parameters, "in use");
  ASSERT_TRUE(in_use.ok());
  budget->set_limit(4 * kUnit);
  EXPECT_TRUE(budget->admission().admit(units(0), "in place").ok());
  EXPECT_EQ(budget->admission().admit(units(1), "larger").status().code(),
            StatusCode::resource_exhausted);
}

TEST(Admission, ARaisedLimitLetsIn) {
  const auto budget = budget_of(10);
  auto running = budget->admission().admit(units(6), "running");
  Asker waiting(*budget, 5);
  EXPECT_FALSE(waiting.done());
  budget->set_limit(11 * kUnit);
  EXPECT_TRUE(waiting.status().ok());
}

TEST(Admission, AReleasedTensorLetsIn) {
  const auto budget = budget_of(10);
  auto running = budget->admission().admit(units(3), "running");
  std::optional<Allocation> tensor =
      std::move(*budget->allocate(4 * kUnit, Tag::outputs, "tensor"));
  Asker waiting(*budget, 5);
  EXPECT_FALSE(waiting.done());
  tensor.reset();
  EXPECT_TRUE(waiting.status().ok());
}

TEST(Admission, StopsWaitingAtItsDeadline) {
  const auto budget = budget_of(10);
  auto running = budget->admission().admit(units(6), "running");
  Stop stop;
  stop.deadline = Stop::Clock::now() + std::chrono::milliseconds(5);
  EXPECT_EQ(budget->admission().admit(units(5), "late", stop).status().code(),
            StatusCode::deadline_exceeded);
  EXPECT_EQ(budget->admission().statistics().waiting, 0);
  EXPECT_EQ(budget->admission().statistics().stopped, 1);
}

TEST(Admission, StopsWaitingWhenCancelled) {
  const auto budget = budget_of(10);
  auto running = budget->admission().admit(units(6), "running");
  Stop stop;
  stop.cancellation = std::make_shared<Cancellation>();
  Asker waiting(*budget, 5, stop);
  EXPECT_FALSE(waiting.done());
  stop.cancellation->cancel();
  EXPECT_EQ(waiting.status().code(), StatusCode::cancelled);
  EXPECT_EQ(budget->admission().statistics().waiting, 0);
  EXPECT_EQ(budget->admission().admit(units(1), "again", stop).status().code(),
            StatusCode::cancelled);
}

// A large run among a stream of small ones, of which there are always some that run: it waits for
// all of them to have ended, and gets in after at most kMostPasses of them have passed it.
TEST(Admission, SmallRunsPassALargeOneAtMostSoOften) {
  const auto budget = budget_of(4);
  std::vector<std::unique_ptr<Asker>> small;
  for (int i = 0; i < 2; ++i) small.push_back(std::make_unique<Asker>(*budget, 1));
  Asker large(*budget, 4);
  std::int64_t let_in_before = 2;
  for (int i = 0; i < 100 && !large.done(); ++i) {
    // A new one comes before the oldest goes, so that the budget is never empty by itself.
    small.push_back(std::make_unique<Asker>(*budget, 1));
    if (budget->admission().statistics().waiting > 1) break;  // it was not let past
    ++let_in_before;
    small.front()->leave();
    small.erase(small.begin());
  }
  EXPECT_EQ(let_in_before, 2 + Admission::kMostPasses);
  EXPECT_FALSE(large.done());
  // One that may not wait is told so, though there is room.
  EXPECT_EQ(budget->admission().admit(units(1), "impatient", {}, false).status().code(),
            StatusCode::resource_exhausted);
  // Only what was let in before it has to end.
  while (small.size() > 1) {
    small.front()->leave();
    small.erase(small.begin());
  }
  EXPECT_EQ(large.entry().order(), let_in_before + 1);
  EXPECT_EQ(large.entry().passed(), Admission::kMostPasses);
  EXPECT_EQ(budget->admission().statistics().most_passed, Admission::kMostPasses);
  EXPECT_FALSE(small.front()->done());
  large.leave();
  EXPECT_TRUE(small.front()->status().ok());
}

// An answer that takes its time to prepare.
class Slow final : public Applicant {
 public:
  explicit Slow(Budget& budget) : budget_(budget) {}
  Offer offer(const BytesPerSpace& free) noexcept override {
    if (!prepared_) return {Offer::Kind::prepare, {}};
    const bool fits = free.device >= kUnit;
    return {fits ? Offer::Kind::fits : Offer::Kind::none, units(1)};
  }
  Status prepare(const BytesPerSpace&) override {
    // Without locks: others get in meanwhile.
    others_got_in_ = budget_.admission().admit(units(2), "other").ok();
    prepared_ = true;
    return ok_status();
  }
  bool others_got_in() const { return others_got_in_; }

 private:
  Budget& budget_;
  std::atomic<bool> prepared_{false};
  bool others_got_in_ = false;
};

TEST(Admission, PreparesWithoutKeepingOthersOut) {
  const auto budget = budget_of(2);
  Slow slow(*budget);
  const auto admitted = budget->admission().admit(slow, "slow", {});
  ASSERT_TRUE(admitted.ok());
  EXPECT_TRUE(slow.others_got_in());
  EXPECT_EQ(admitted->passed(), 1);
}

// Any order of coming, waiting and going: nobody is lost, nothing is left, no bound is broken.
TEST(Admission, ManyThreadsAllGetInAndLeaveNothing) {
  const auto budget = budget_of(8);
  constexpr int kThreads = 16, kRuns = 200;
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRuns; ++i) {
        const std::int64_t count = 1 + (t * 7 + i * 3) % 8;
        auto run = budget->admission().admit(units(count), "run");
        if (!run.ok()) continue;
        admitted += 1;
        const auto block = run->reservation().allocate(count * kUnit, Tag::arena, "arena");
        if (!block.ok()) admitted -= 1000000;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, kThreads * kRuns);
  const Statistics now = budget->statistics();
  EXPECT_EQ(now.used_bytes, 0);
  EXPECT_EQ(now.reserved_bytes, 0);
  EXPECT_LE(now.peak_bytes, 8 * kUnit);
  EXPECT_LE(budget->admission().statistics().most_passed, Admission::kMostPasses);
  EXPECT_EQ(budget->admission().statistics().running, 0);
}

}  // namespace
}  // namespace plimsoll::memory
