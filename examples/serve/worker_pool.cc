// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/worker_pool.h"

#include <chrono>
#include <system_error>
#include <utility>

namespace plimsoll::examples::serve {
namespace {

constexpr std::chrono::seconds kIdle(10);

}  // namespace

WorkerPool::~WorkerPool() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  arrived_.notify_all();
  while (!threads_.empty()) {
    // It moves itself to those that have ended.
    arrived_.wait(lock, [&] { return !ended_.empty() || threads_.empty(); });
    join_ended();
  }
  join_ended();
}

// With the mutex held: they have left it for good.
void WorkerPool::join_ended() {
  for (std::thread& thread : ended_) thread.join();
  ended_.clear();
}

bool WorkerPool::run(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  join_ended();
  // Threads that have just been made have nothing to do yet either.
  if (at_work_ + waiting_.size() >= most_threads_ + most_waiting_) return false;
  if (at_work_ + waiting_.size() >= threads_.size() && threads_.size() < most_threads_) {
    const auto self = threads_.emplace(threads_.end());
    try {
      *self = std::thread([this, self] { this->work(self); });
    } catch (const std::system_error&) {
      threads_.erase(self);
      if (threads_.empty()) return false;
    }
  }
  waiting_.push_back(std::move(work));
  arrived_.notify_one();
  return true;
}

void WorkerPool::work(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait_for(lock, kIdle, [&] { return !waiting_.empty() || stopping_; });
    if (waiting_.empty()) break;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    ++at_work_;
    lock.unlock();
    work();
    work = nullptr;  // what it holds is given back without the mutex
    lock.lock();
    --at_work_;
  }
  ended_.splice(ended_.end(), threads_, self);
  arrived_.notify_all();
}

}  // namespace plimsoll::examples::serve
