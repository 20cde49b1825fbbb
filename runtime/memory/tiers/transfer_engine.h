// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::memory {

struct TransferStatistics {
  std::int64_t transfers = 0, bytes = 0;  // those that succeeded
  double busy_seconds = 0;
};

// A transfer under way or done. Shared by who waits and the engine; read it after the wait.
class Transfer {
 public:
  double seconds() const { return seconds_; }  // on the engine, queueing excluded
  std::chrono::steady_clock::time_point started() const { return started_; }  // there

 private:
  friend class TransferEngine;
  std::function<Status(device::Stream&)> work_;
  std::function<void(const Status&)> ended_;
  std::int64_t bytes_ = 0;
  bool done_ = false;
  Status status_;
  double seconds_ = 0;
  std::chrono::steady_clock::time_point started_;
};

// One direction of a link: transfers run on a thread of their own, one at a time, in the order in
// which they were enqueued. The thread is started by the first of them. Those that are issued are
// in the order of their stream instead. Thread-safe; the destructor waits for all, unless it runs
// on the engine's own thread: then they follow.
class TransferEngine {
 public:
  TransferEngine(std::string name, std::shared_ptr<device::Device> device);
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  // `work` moves `bytes` and gets a stream of the engine's own. `ended` (may be null) hears on the
  // engine's thread what came of it, before wait() does.
  std::shared_ptr<Transfer> enqueue(std::int64_t bytes, std::function<Status(device::Stream&)> work,
                                    std::function<void(const Status&)> ended = nullptr);
  // Blocks until the transfer has ended; what came of it.
  Status wait(Transfer& transfer);
  // `work` enqueues the copies of `bytes` at once, on a stream of the caller's, who waits for them
  // by its events: no thread of the engine's does.
  Status issue(std::int64_t bytes, const std::function<Status()>& work);

  TransferStatistics statistics() const;
  // Fault injection for tests: the n-th transfer from now (1 = next) fails; 0 turns it off. Gives
  // what was left of the n before: 0 where that failure has come.
  std::int64_t fail_transfer(std::int64_t n);

 private:
  // What the thread works on. It keeps it alive: a transfer may hold the last reference to what
  // owns the engine, which then goes on the engine's own thread.
  struct State {
    std::string name;
    std::shared_ptr<device::Device> device;
    std::mutex mutex;
    std::condition_variable queued, done;
    std::deque<std::shared_ptr<Transfer>> queue;
    TransferStatistics statistics;
    std::int64_t fail_in = 0;
    bool stopping = false;
    std::unique_ptr<device::Stream> stream;  // the thread's
  };
  static void loop(State& state);
  static Status run(State& state, Transfer& transfer, bool fail);
  static Status injected_failure(const State& state);

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace plimsoll::memory
