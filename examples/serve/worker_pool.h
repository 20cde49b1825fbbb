// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace plimsoll::examples::serve {

// Threads that are made when there is work for them and end when there has been none for a while,
// with their stacks. Any thread.
class WorkerPool {
 public:
  // At most `threads` at work, and `waiting` pieces of work that wait for one.
  WorkerPool(std::size_t threads, std::size_t waiting)
      : most_threads_(threads), most_waiting_(waiting) {}
  // Does what was accepted first.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False, and nothing done, where too much waits already or no thread can be had.
  bool run(std::function<void()> work);

 private:
  void work(std::list<std::thread>::iterator self);
  void join_ended();

  const std::size_t most_threads_, most_waiting_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> waiting_;
  std::size_t at_work_ = 0;  // threads
  bool stopping_ = false;
  std::list<std::thread> threads_, ended_;
};

}  // namespace plimsoll::examples::serve
