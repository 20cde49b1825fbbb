// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string_view>

#include "runtime/base/status.h"

namespace plimsoll {

// What becomes of the library in a child that fork() makes without exec. Of the parent's threads
// the child has only the one that forked; memory is a copy. So what has threads or connections
// can't be used there, and what was made before is known by its mark. Calls of this file are
// thread-safe.

// How many forks lie between the process that asked first and this one.
std::uint32_t process_generation();

// When an object was made, to be kept in it.
class ForkMark {
 public:
  ForkMark() : generation_(process_generation()) {}
  // Whether this is a child of the process that made it.
  bool is_inherited() const { return generation_ != process_generation(); }
  // FAILED_PRECONDITION where it is; `what` names the object.
  Status check(std::string_view what) const;

 private:
  std::uint32_t generation_;
};

// While one lives in another thread, fork() waits, and new ones wait for a process that forks: the
// child is never a copy of what a thread had in the middle of its work. For what is short and done
// in the calling thread alone, with locks of the library or of another one (a primitive made, a
// kernel compiled). They nest. Initializations of functions' statics each have one
// (static_guards.cc).
class NoForkScope {
 public:
  NoForkScope() { enter(); }
  ~NoForkScope() { leave(); }
  NoForkScope(const NoForkScope&) = delete;
  NoForkScope& operator=(const NoForkScope&) = delete;

  // For what has a beginning and an end, but no scope; both in the same thread.
  static void enter();
  static void leave();
};

// Guards what the whole process shares, and is never destroyed. Whoever waits for or holds one is
// in a NoForkScope, so that a child finds them free and what they guard whole.
class ProcessMutex {
 public:
  ProcessMutex() = default;
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;
  void lock() {
    NoForkScope::enter();
    mutex_.lock();
  }
  void unlock() {
    mutex_.unlock();
    NoForkScope::leave();
  }

 private:
  std::mutex mutex_;
};

}  // namespace plimsoll
