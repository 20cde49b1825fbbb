// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "runtime/device/device.h"

namespace plimsoll::benchmarks {

// The most that the driver says this device's user holds, looked at by a thread again and again
// from the constructor to stop(): total less free, code of kernels among it. Of a GPU; another
// device's is 0.
class DriverBytes {
 public:
  explicit DriverBytes(std::shared_ptr<device::Device> device);
  ~DriverBytes() { stop(); }
  DriverBytes(const DriverBytes&) = delete;
  DriverBytes& operator=(const DriverBytes&) = delete;

  // The most there was.
  std::int64_t stop();

 private:
  std::int64_t look() const;

  const std::shared_ptr<device::Device> device_;
  std::atomic<bool> stops_ = false;
  std::int64_t most_ = 0;  // the thread's, until it has ended
  std::thread thread_;
};

}  // namespace plimsoll::benchmarks
