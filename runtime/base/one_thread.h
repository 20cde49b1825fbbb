// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plimsoll {

// As long as it lives, whatever would spread the work of the calling thread over others
// (device::parallel_for) leaves it on this one: for work that is to keep out of the way of others.
// May be nested; destroyed on the thread that made it.
class OneThread {
 public:
  OneThread() { ++depth_; }
  ~OneThread() { --depth_; }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  // Whether the calling thread has one.
  static bool is_in_force() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

}  // namespace plimsoll
