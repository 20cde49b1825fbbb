// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/base/status.h"

namespace plimsoll {

// Asks work to end early. Thread-safe; once cancelled it stays so.
class Cancellation {
 public:
  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void cancel();
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Has `wake` called when it is cancelled (at once, if it is), on the thread that cancels. Nothing
  // is called any more when the destructor has returned.
  class Watch {
   public:
    // Of nothing where `watched` is null, which else must outlive it.
    Watch(Cancellation* watched, std::function<void()> wake);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class Cancellation;
    Cancellation* const watched_;
    const std::function<void()> wake_;
  };

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;  // guards watches_; held while they are woken
  std::vector<Watch*> watches_;
};

// When work is to end early, whether or not it is done: never, as it stands.
struct Stop {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<Cancellation> cancellation;
  Clock::time_point deadline = Clock::time_point::max();

  bool has_deadline() const { return deadline != Clock::time_point::max(); }
  // CANCELLED or DEADLINE_EXCEEDED when it is to end now. Reads the clock only where there is a
  // deadline.
  Status check() const;
};

}  // namespace plimsoll
