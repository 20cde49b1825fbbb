// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/connection_pool.h"

#include <utility>

namespace plimsoll::examples::serve {

ConnectionPool::ConnectionPool(int threads, std::atomic<bool>& has_waiting)
    : has_waiting_(has_waiting), most_(static_cast<std::size_t>(threads)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

void ConnectionPool::enqueue(std::function<void()> serve) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return waiting_.size() < most_ || stopping_; });
  waiting_.push_back(std::move(serve));
  has_waiting_ = waiting_.size() > idle_;
  arrived_.notify_one();
}

void ConnectionPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    arrived_.wait(lock, [&] { return !waiting_.empty() || stopping_; });
    --idle_;
    if (waiting_.empty()) return;
    const std::function<void()> serve = std::move(waiting_.front());
    waiting_.pop_front();
    has_waiting_ = waiting_.size() > idle_;
    room_.notify_one();
    lock.unlock();
    serve();
    lock.lock();
  }
}

void ConnectionPool::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace plimsoll::examples::serve
