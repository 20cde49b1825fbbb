// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace plimsoll {
namespace {

constexpr std::chrono::seconds kLongestWait(2);

struct Forks {
  std::atomic<std::uint32_t> generation{0};
  std::atomic<ProcessMutex*> newest{nullptr};  // and through it all of them
  std::mutex forking;                          // held while a process forks; guards what follows
  ProcessMutex *first_held = nullptr, *first_free = nullptr;  // between these all are held

  Forks() { pthread_atfork(prepare, resume_parent, resume_child); }

  // All or none, so that it waits with nothing in its hands: whoever holds one may want another.
  bool take_all() {
    first_held = first_free = newest.load(std::memory_order_acquire);
    for (; first_free != nullptr; first_free = first_free->before()) {
      if (first_free->try_lock()) continue;
      give_back();
      return false;
    }
    return true;
  }
  void give_back() {
    for (; first_held != first_free; first_held = first_held->before()) first_held->unlock();
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
    all.forking.lock();
    if (all.take_all() || std::chrono::steady_clock::now() >= until) return;
    all.forking.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Forks::resume_parent() {
  forks().give_back();
  forks().forking.unlock();
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
  std::atomic<ProcessMutex*>& newest = forks().newest;
  before_ = newest.load(std::memory_order_relaxed);
  while (!newest.compare_exchange_weak(before_, this, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace plimsoll
