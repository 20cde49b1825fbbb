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

// Guards what the whole process shares, and is never destroyed. fork() waits until nobody holds
// one, two seconds at most, so that the child finds them free and what they guard whole. Making one
// waits for nobody: it is mostly done inside the guard of a function's static, which a child would
// find taken for ever if the process forked meanwhile.
class ProcessMutex {
 public:
  ProcessMutex();
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  // The one that was made before it; null: it was the first.
  ProcessMutex* before() const { return before_; }

 private:
  std::mutex mutex_;
  ProcessMutex* before_ = nullptr;
};

}  // namespace plimsoll
