// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace plimsoll {
namespace {

// How long fork() waits for others at most. No work in a scope takes so long on an idle machine but
// measuring its speeds, once; one that waits for a thread which waits in enter() would never end.
constexpr std::chrono::seconds kLongestWait(10);
// How long nobody may enter before those who must, so that others can leave, are let in.
constexpr std::chrono::milliseconds kClosed(50), kOpen(5);
constexpr std::chrono::microseconds kPoll(100);

// All of it is there before any code of the library runs: guards of statics ask for it.
constinit std::atomic<std::uint32_t> generation{0};
constinit std::atomic<std::int64_t> inside{0};  // threads in a scope
constinit std::atomic<bool> is_closed{false};
constinit std::mutex forking;  // held while a process forks
constinit thread_local int depth = 0;

void prepare() {
  using Clock = std::chrono::steady_clock;
  forking.lock();
  // One that forks in a scope (in a function that takes log lines) doesn't wait for itself.
  const std::int64_t own = depth > 0 ? 1 : 0;
  const auto until = Clock::now() + kLongestWait;
  for (;;) {
    is_closed = true;
    const auto open_at = Clock::now() + kClosed;
    while (inside > own && Clock::now() < open_at) std::this_thread::sleep_for(kPoll);
    if (inside <= own || Clock::now() >= until) return;
    is_closed = false;
    std::this_thread::sleep_for(kOpen);
  }
}

void resume_parent() {
  is_closed = false;
  forking.unlock();
}

void resume_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  inside = depth > 0 ? 1 : 0;
  resume_parent();
}

[[maybe_unused]] const int is_registered = pthread_atfork(prepare, resume_parent, resume_child);

}  // namespace

std::uint32_t process_generation() { return generation.load(std::memory_order_relaxed); }

Status ForkMark::check(std::string_view what) const {
  if (!is_inherited()) return ok_status();
  return failed_precondition(
      std::string(what) +
      ": made before fork() by a parent of this process, whose threads and connections are not "
      "here (make a new context, and what belongs to it, in the child)");
}

void NoForkScope::enter() {
  if (depth++ > 0) return;
  // Either this sees that it is closed, or prepare() sees this one inside.
  for (;;) {
    ++inside;
    if (!is_closed) return;
    --inside;
    while (is_closed) std::this_thread::sleep_for(kPoll);
  }
}

void NoForkScope::leave() {
  if (--depth == 0) --inside;
}

}  // namespace plimsoll
