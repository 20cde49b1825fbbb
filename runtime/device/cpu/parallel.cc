// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/parallel.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>

#include "runtime/base/environment.h"
#include "runtime/base/one_thread.h"

#ifdef PLIMSOLL_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace plimsoll::device {
namespace {

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return 1;
}

// The pool's concurrency; an arena is made anew when it changes, and old ones end with their last
// user.
struct Pool {
  std::mutex mutex;
  std::atomic<int> threads{0};  // 0: not asked for yet
  std::shared_ptr<tbb::task_arena> arena;
  std::unique_ptr<tbb::global_control> above_default;

  std::shared_ptr<tbb::task_arena> current() {
    const std::lock_guard lock(mutex);
    if (arena == nullptr) {
      const int threads = thread_count();
      // Without leave oneTBB starts no more threads than there are CPUs, and prints that it
      // doesn't. Leave is only given, never taken from other users of oneTBB in the process.
      above_default.reset();
      if (threads > tbb::info::default_concurrency()) {
        above_default = std::make_unique<tbb::global_control>(
            tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
      }
      arena = std::make_shared<tbb::task_arena>(threads);
    }
    return arena;
  }
};

Pool& pool() {
  static Pool* const instance =
      new Pool;  // never destroyed: workers may outlive static destructors
  return *instance;
}

// Under ThreadSanitizer oneTBB and this file are not instrumented: what oneTBB orders (the call
// before its pieces, they before its return) is told here, and only that; what pieces do to each
// other stays checked. Otherwise nothing.
class PieceOrder {
 public:
#ifdef PLIMSOLL_TSAN
  PieceOrder() { __tsan_release(&started_); }
  ~PieceOrder() { __tsan_acquire(&finished_); }
  void enter() { __tsan_acquire(&started_); }
  void leave() { __tsan_release(&finished_); }

 private:
  char started_ = 0, finished_ = 0;
#else
  void enter() {}
  void leave() {}
#endif
};

}  // namespace

int thread_count() {
  int threads = pool().threads.load(std::memory_order_relaxed);
  if (threads == 0) {
    // A bad value is reported where contexts are made; here it counts as not set.
    const auto asked = count_variable(Variable::num_threads, available_cpus());
    threads = static_cast<int>(
        std::clamp<std::int64_t>(asked.ok() ? *asked : available_cpus(), 1, kMostThreads));
    int expected = 0;
    if (!pool().threads.compare_exchange_strong(expected, threads)) threads = expected;
  }
  return threads;
}

void set_thread_count(int threads) {
  const std::lock_guard lock(pool().mutex);
  pool().threads.store(std::max(1, threads));
  pool().arena = nullptr;
}

void parallel_for(std::int64_t count, std::int64_t grain, RangeBody body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(1, grain);
  if (count <= grain || OneThread::is_in_force() || thread_count() == 1) {
    body(0, count);
    return;
  }
  PieceOrder order;
  pool().current()->execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          order.enter();
          body(range.begin(), range.end());
          order.leave();
        },
        tbb::auto_partitioner());
  });
}

}  // namespace plimsoll::device
