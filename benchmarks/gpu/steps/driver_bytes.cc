// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/gpu/steps/driver_bytes.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/device/cuda/cuda_device.h"

namespace plimsoll::benchmarks {

DriverBytes::DriverBytes(std::shared_ptr<device::Device> device)
    : device_(std::move(device)), thread_([this] {
        while (!stops_) {
          most_ = std::max(most_, look());
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        most_ = std::max(most_, look());
      }) {}

std::int64_t DriverBytes::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
  return most_;
}

// What is kept for further blocks counts, too: nobody else can have it.
std::int64_t DriverBytes::look() const {
  const auto* const gpu = dynamic_cast<const device::cuda::CudaDevice*>(device_.get());
  if (gpu == nullptr) return 0;
  const auto free = gpu->context()->free_bytes();
  return free.ok() ? gpu->total_bytes() - *free : 0;
}

}  // namespace plimsoll::benchmarks
