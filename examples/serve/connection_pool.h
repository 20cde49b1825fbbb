// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <httplib.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace plimsoll::examples::serve {

// Threads for connections. As many may wait for one as there are threads; then no more are
// accepted until one is free.
class ConnectionPool final : public httplib::TaskQueue {
 public:
  // `has_waiting` says for as long as it lives whether connections wait for a thread.
  ConnectionPool(int threads, std::atomic<bool>& has_waiting);
  ~ConnectionPool() override = default;

  void enqueue(std::function<void()> serve) override;
  void shutdown() override;

 private:
  void work();

  std::atomic<bool>& has_waiting_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable arrived_, room_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;  // threads
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::examples::serve
