// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll {
namespace {

using std::chrono::milliseconds;

// Whether `body` holds in a child that is forked here; false, too, where it hangs.
bool holds_in_child(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(body() ? 0 : 1);
  }
  int how = 0;
  ::waitpid(child, &how, 0);
  return WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

class ForkScopes : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "AddressSanitizer's own allocator may stay locked in the child";
#endif
  }
};

// Two threads that are nearly always in the middle of something.
class Workers {
 public:
  // Each begins with `first`.
  explicit Workers(const std::function<void()>& first = [] {}) {
    threads_.emplace_back([this, first] { work(first, [] { return NoForkScope(); }); });
    threads_.emplace_back(
        [this, first] { work(first, [this] { return std::unique_lock(mutex_); }); });
    while (done_ < 2) std::this_thread::yield();
  }
  ~Workers() {
    ends_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

  // To be asked in a child.
  bool are_whole() {
    const std::lock_guard free(mutex_);
    return begun_ == done_;
  }

 private:
  template <typename Enter>
  void work(const std::function<void()>& first, const Enter& enter) {
    first();
    while (!ends_) {
      const auto whole = enter();
      ++begun_;
      std::this_thread::sleep_for(milliseconds(2));
      ++done_;
    }
  }

  std::atomic<int> begun_ = 0, done_ = 0;
  std::atomic<bool> ends_ = false;
  ProcessMutex mutex_;
  std::vector<std::thread> threads_;
};

TEST_F(ForkScopes, AChildHasNothingHalfDone) {
  Workers workers;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(holds_in_child([&] { return workers.are_whole(); }));
}

// A static of its own for each N.
template <int N>
int slow_static(std::atomic<int>& begun) {
  static const int value = [&] {
    ++begun;
    std::this_thread::sleep_for(milliseconds(30));
    return N;
  }();
  return value;
}

template <int... N>
void fork_while_initializing(std::integer_sequence<int, N...>) {
  const auto once = [](auto initialize, int expected) {
    std::atomic<int> begun = 0;
    std::atomic<bool> ends = false;  // not before the fork: ThreadSanitizer reports it in the child
    std::thread thread([&] {
      initialize(begun);
      while (!ends) std::this_thread::yield();
    });
    while (begun == 0) std::this_thread::yield();
    EXPECT_TRUE(holds_in_child([&] { return initialize(begun) == expected && begun == 1; }));
    ends = true;
    thread.join();
  };
  (once(slow_static<N>, N), ...);
}

TEST_F(ForkScopes, AStaticIsInitializedBeforeOrAfter) {
  fork_while_initializing(std::make_integer_sequence<int, 5>());
}

// If they stayed inside, fork() would give up waiting for them, and come between what they do.
TEST_F(ForkScopes, AStaticWhoseInitializationFailsIsLeftAgain) {
  const auto fails = []() -> int {
    static const int value = []() -> int { throw std::runtime_error("not now"); }();
    return value;
  };
  Workers workers([&] { EXPECT_THROW(fails(), std::runtime_error); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(holds_in_child([&] { return workers.are_whole(); }));
}

TEST_F(ForkScopes, OneThatForksInAScopeWaitsForTheOthersAlone) {
  Workers workers;
  ProcessMutex mutex;
  for (int i = 0; i < 3; ++i) {
    std::unique_lock held(mutex);
    const NoForkScope nested;
    EXPECT_TRUE(holds_in_child([&] {
      held.unlock();
      const std::lock_guard again(mutex);
      return workers.are_whole();
    }));
  }
}

// Neither could go on if nobody entered until the process has forked.
TEST_F(ForkScopes, OneInsideMayWaitForOneThatEnters) {
  std::atomic<int> round = 0;  // odd: the other one's turn
  std::atomic<bool> ends = false, is_alone = false;
  std::thread inside([&] {
    while (!ends) {
      std::this_thread::sleep_for(milliseconds(2));
      const NoForkScope whole;
      const int mine = ++round;
      while (round == mine) std::this_thread::yield();
    }
  });
  std::thread entering([&] {
    while (!is_alone) {
      if (round % 2 == 0) continue;
      const NoForkScope whole;
      ++round;
    }
  });
  while (round < 4) std::this_thread::yield();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(holds_in_child([&] { return round % 2 == 0; }));
  ends = true;
  inside.join();
  is_alone = true;
  entering.join();
}

TEST_F(ForkScopes, AMarkTellsTheChild) {
  const ForkMark mark;
  EXPECT_TRUE(mark.check("thing").ok());
  EXPECT_TRUE(holds_in_child([&] {
    return mark.is_inherited() && mark.check("thing").code() == StatusCode::failed_precondition &&
           !ForkMark().is_inherited();
  }));
  EXPECT_FALSE(mark.is_inherited());
}

}  // namespace
}  // namespace plimsoll
