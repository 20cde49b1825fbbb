// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/device/cpu/parallel.h"

namespace plimsoll::device {

// Threads for parallel_for in a child that was forked when oneTBB ran already: it counts on
// threads that the child does not have, and can't be begun again. Thread-safe.
class ForkedPool {
 public:
  // `threads`, the calling ones of run() among them; started here.
  explicit ForkedPool(int threads);
  // After the last run.
  ~ForkedPool();
  ForkedPool(const ForkedPool&) = delete;
  ForkedPool& operator=(const ForkedPool&) = delete;

  // As parallel_for; serial on a thread that does a piece already.
  void run(std::int64_t count, std::int64_t grain, RangeBody body);

 private:
  struct Job {
    RangeBody body;
    std::int64_t count, piece;
    std::atomic<std::int64_t> next{0};
    int helpers = 0;  // under the pool's mutex: threads that look at it, but for its own

    void work();
  };
  void loop();

  std::mutex mutex_;  // guards what follows
  std::condition_variable has_work_, left_;
  std::vector<Job*> jobs_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::device
