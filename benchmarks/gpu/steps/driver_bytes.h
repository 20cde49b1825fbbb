// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "runtime/device/device.h"

namespace plimsoll::benchmarks {

// The most that the driver says this device's user holds, code of kernels among it, looked at by a
// thread again and again from the constructor to stop(). Of a GPU; another device's is 0.
class DriverBytes {
 public:
  explicit DriverBytes(std::shared_ptr<device::Device> device);
  ~DriverBytes() { stop(); }
  DriverBytes(const DriverBytes&) = delete;
  DriverBytes& operator=(const DriverBytes&) = delete;

  void stop();
  // After stop(): the most that blocks and code took, and with it what was kept for further blocks.
  std::int64_t taken_bytes() const { return taken_; }
  std::int64_t held_bytes() const { return held_; }

 private:
  void look();

  const std::shared_ptr<device::Device> device_;
  std::atomic<bool> stops_ = false;
  std::int64_t taken_ = 0, held_ = 0;  // the thread's, until it has ended
  std::thread thread_;
};

}  // namespace plimsoll::benchmarks
