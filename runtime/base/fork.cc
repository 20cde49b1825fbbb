// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

constexpr std::chrono::seconds kLongestWait(2);

struct Forks {
  std::atomic<std::uint32_t> generation{0};
  std::mutex list_mutex;  // guards the list, and is held while a process forks
  std::vector<ProcessMutex*> mutexes;
  std::size_t held = 0;  // of the list, while a process forks

  Forks() { pthread_atfork(prepare, resume_parent, resume_child); }

  // All or none, so that it waits with nothing in its hands: whoever holds one may want another.
  bool take_all() {
    for (held = 0; held < mutexes.size(); ++held) {
      if (mutexes[held]->try_lock()) continue;
      give_back();
      return false;
    }
    return true;
  }
  void give_back() {
    while (held > 0) mutexes[--held]->unlock();
  }

  // One that forks inside what a mutex guards (a function that takes log lines) would wait for
  // itself: the child then has to do without.
  static void prepare();
  static void resume_parent();
  static void resume_child();
};

Forks& forks() {
  static Forks* const instance = new Forks;  // never destroyed, as what it counts for
  return *instance;
}

void Forks::prepare() {
  Forks& all = forks();
  const auto until = std::chrono::steady_clock::now() + kLongestWait;
  for (;;) {
    all.list_mutex.lock();
    if (all.take_all() || std::chrono::steady_clock::now() >= until) return;
    all.list_mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Forks::resume_parent() {
  forks().give_back();
  forks().list_mutex.unlock();
}

void Forks::resume_child() {
  forks().generation.fetch_add(1, std::memory_order_relaxed);
  resume_parent();
}

}  // namespace

std::uint32_t process_generation() { return forks().generation.load(std::memory_order_relaxed); }

Status ForkMark::check(std::string_view what) const {
  if (!is_inherited()) return ok_status();
  return failed_precondition(
      std::string(what) +
      ": made before fork() by a parent of this process, whose threads and connections are not "
      "here (make a new context, and what belongs to it, in the child)");
}

ProcessMutex::ProcessMutex() {
  Forks& all = forks();
  const std::lock_guard lock(all.list_mutex);
  all.mutexes.push_back(this);
}

}  // namespace plimsoll
