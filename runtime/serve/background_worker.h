// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/cancellation.h"
#include "runtime/base/fork.h"

namespace plimsoll::executor {

// A thread of the lowest priority that does jobs one after the other, in the order in which they
// come. What it makes kernels of it makes on that thread alone, so that runs keep the other
// processors. Thread-safe.
class BackgroundWorker {
 public:
  class Job {
   public:
    // Looked at by the work: true soon after cancel() or the end of the process has begun.
    const Cancellation& cancellation() const { return cancellation_; }

   private:
    friend class BackgroundWorker;
    explicit Job(std::function<void(const Cancellation&)> work) : work_(std::move(work)) {}
    Cancellation cancellation_;
    std::function<void(const Cancellation&)> work_;
    bool ended_ = false;  // under the worker's mutex
  };

  // The one of this process: there as long as somebody holds it, and joined by whoever lets go of
  // it last, which must be no job. A process that ends while somebody holds it still cancels its
  // jobs and joins it, too. A child that fork() makes has one of its own.
  static std::shared_ptr<BackgroundWorker> shared();

  // Null where no thread can be started, or the process ends: the work will not be done. It must
  // not throw.
  std::shared_ptr<Job> submit(std::function<void(const Cancellation&)> work);
  // Afterwards the work is over, or will never begin. From another thread than the worker's.
  void cancel(const std::shared_ptr<Job>& job);

  BackgroundWorker() = default;
  ~BackgroundWorker() { end(); }
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

 private:
  void loop();
  void end();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Job> running_;
  bool ending_ = false;
  const ForkMark mark_;  // a forked child has none of the threads
  std::thread thread_;
};

}  // namespace plimsoll::executor
