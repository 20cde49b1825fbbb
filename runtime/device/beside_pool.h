// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace plimsoll::device {

// As long as it lives, parallel_for on the calling thread waits for nobody who uses the pool
// without one: for functions that a device calls while threads of the pool may wait for the device.
// May be nested; destroyed on the thread that made it.
class BesidePool {
 public:
  BesidePool() { ++depth_; }
  ~BesidePool() { --depth_; }
  BesidePool(const BesidePool&) = delete;
  BesidePool& operator=(const BesidePool&) = delete;

  // Whether the calling thread has one.
  static bool is_in_force() { return depth_ > 0; }

 private:
  inline static thread_local int depth_ = 0;
};

}  // namespace plimsoll::device
