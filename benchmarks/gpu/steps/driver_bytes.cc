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
          look();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        look();
      }) {}

void DriverBytes::stop() {
  stops_ = true;
  if (thread_.joinable()) thread_.join();
}

// The driver is asked first: what is mapped meanwhile is seen the next time.
void DriverBytes::look() {
  const auto* const gpu = dynamic_cast<const device::cuda::CudaDevice*>(device_.get());
  if (gpu == nullptr) return;
  const auto free = gpu->context()->free_bytes();
  const std::int64_t kept = gpu->memory().kept_bytes();
  if (!free.ok()) return;
  const std::int64_t held = gpu->total_bytes() - *free;
  held_ = std::max(held_, held);
  taken_ = std::max(taken_, held - kept);
}

}  // namespace plimsoll::benchmarks
