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
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/base/float_environment.h"
#include "runtime/base/fork.h"
#include "runtime/base/one_thread.h"
#include "runtime/device/beside_pool.h"
#include "runtime/device/cpu/forked_pool.h"

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
// user. A child that was forked after oneTBB began has threads of its own instead.
struct Pool {
  ProcessMutex mutex;
  std::atomic<int> threads{0};  // 0: not asked for yet
  bool has_begun = false;       // oneTBB, when the mark says
  ForkMark begun;
  std::shared_ptr<tbb::task_arena> arena, beside;  // `beside`: of threads with a BesidePool
  std::unique_ptr<tbb::global_control> above_default;
  ForkMark forked_made;
  std::shared_ptr<ForkedPool> forked;

  // One of both.
  struct Current {
    std::shared_ptr<tbb::task_arena> arena;
    std::shared_ptr<ForkedPool> forked;
  };
  Current current() {
    const std::lock_guard lock(mutex);
    if (has_begun && begun.is_inherited()) return {nullptr, forked_pool()};
    if (!has_begun) {
      has_begun = true;
      begun = ForkMark();
    }
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
      beside = std::make_shared<tbb::task_arena>(threads);
    }
    return {BesidePool::is_in_force() ? beside : arena, nullptr};
  }

  // With the mutex. What a parent made stays as it is: nobody could join its threads.
  std::shared_ptr<ForkedPool> forked_pool() {
    if (forked != nullptr && forked_made.is_inherited()) {
      static_cast<void>(new std::shared_ptr<ForkedPool>(std::exchange(forked, nullptr)));
    }
    if (forked == nullptr) {
      forked = std::make_shared<ForkedPool>(thread_count());
      forked_made = ForkMark();
    }
    return forked;
  }
  void change() {
    if (!begun.is_inherited()) arena = beside = nullptr;
    if (!forked_made.is_inherited()) forked = nullptr;
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
  pool().change();
}

void parallel_for(std::int64_t count, std::int64_t grain, RangeBody body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(1, grain);
  const FloatEnvironment floats;
  if (count <= grain || OneThread::is_in_force() || thread_count() == 1) {
    body(0, count);
    return;
  }
  const Pool::Current current = pool().current();
  if (current.forked != nullptr) {
    current.forked->run(count, grain, [&](std::int64_t begin, std::int64_t end) {
      const FloatEnvironment of_piece;
      body(begin, end);
    });
    return;
  }
  PieceOrder order;
  const bool is_beside = BesidePool::is_in_force();
  current.arena->execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, static_cast<std::size_t>(grain)),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          order.enter();
          const FloatEnvironment of_piece;
          if (is_beside) {  // on whatever thread
            const BesidePool beside;
            body(range.begin(), range.end());
          } else {
            body(range.begin(), range.end());
          }
          order.leave();
        },
        tbb::auto_partitioner());
  });
}

}  // namespace plimsoll::device
