// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/forked_pool.h"

#include <algorithm>
#include <system_error>

namespace plimsoll::device {
namespace {

// More pieces than threads, as some threads are busy elsewhere.
constexpr std::int64_t kPiecesPerThread = 4;

thread_local bool does_a_piece = false;

}  // namespace

ForkedPool::ForkedPool(int threads) {
  try {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { loop(); });
  } catch (const std::system_error&) {
    // As many as the system gives: callers do what nobody helps with.
  }
}

ForkedPool::~ForkedPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  has_work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ForkedPool::Job::work() {
  does_a_piece = true;
  for (;;) {
    const std::int64_t begin = next.fetch_add(piece, std::memory_order_relaxed);
    if (begin >= count) break;
    body(begin, std::min(begin + piece, count));
  }
  does_a_piece = false;
}

// A job stays in the list until its caller has found nothing more to do in it; helpers that have
// taken it by then are waited for.
void ForkedPool::run(std::int64_t count, std::int64_t grain, RangeBody body) {
  if (does_a_piece || threads_.empty()) {
    body(0, count);
    return;
  }
  const auto pieces = static_cast<std::int64_t>(threads_.size() + 1) * kPiecesPerThread;
  Job job{body, count, std::max(grain, (count + pieces - 1) / pieces)};
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
  }
  has_work_.notify_all();
  job.work();
  std::unique_lock lock(mutex_);
  std::erase(jobs_, &job);
  left_.wait(lock, [&] { return job.helpers == 0; });
}

void ForkedPool::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = nullptr;
    has_work_.wait(lock, [&] {
      const auto open = std::find_if(jobs_.begin(), jobs_.end(), [](const Job* one) {
        return one->next.load(std::memory_order_relaxed) < one->count;
      });
      job = open == jobs_.end() ? nullptr : *open;
      return ends_ || job != nullptr;
    });
    if (job == nullptr) return;
    ++job->helpers;
    lock.unlock();
    job->work();
    lock.lock();
    if (--job->helpers == 0) left_.notify_all();
  }
}

}  // namespace plimsoll::device
