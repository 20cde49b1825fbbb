// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cuda/recorded_gpu.h"

#include <array>
#include <cstdlib>

#include "runtime/backend/backends.h"
#include "runtime/device/devices.h"
#include "tests/device/cuda/dressed_kernels.h"

namespace plimsoll::device::cuda {
namespace {

Libraries libraries_of(const RecordingCublaslt* products, const RecordingCudnn* convolutions) {
  Libraries found;
  if (products != nullptr) found.products = &products->table();
  if (convolutions != nullptr) found.convolutions = &convolutions->table();
  return found;
}

}  // namespace

RecordedGpu::RecordedGpu(const RecordingOptions& options, int ordinal, MakeKernels make_kernels)
    : driver(options),
      products(options.has_products ? std::make_unique<RecordingCublaslt>(
                                          driver, options.module_bytes, options.module_bytes)
                                    : nullptr),
      convolutions(
          options.has_convolutions
              ? std::make_unique<RecordingCudnn>(driver, options.module_bytes, options.module_bytes)
              : nullptr),
      device(CudaDevice::create(driver.table(), ordinal,
                                libraries_of(products.get(), convolutions.get()))
                 .value()),
      make_kernels_(make_kernels == nullptr ? DressedKernels::create : make_kernels) {}

const std::shared_ptr<KernelProvider>& RecordedGpu::provider() {
  std::call_once(provider_once_, [this] { provider_ = make_kernels_(device, driver).value(); });
  return provider_;
}

std::string RecordedGpu::close() {
  provider_.reset();
  device.reset();
  return complaints(*this) + driver.leaks() + (products == nullptr ? "" : products->leaks()) +
         (convolutions == nullptr ? "" : convolutions->leaks());
}

RecordedGpu& recorded_gpu(int ordinal) {
  static const auto* const gpus = [] {
    const std::array<Schedule, 3> schedules{Schedule::late, Schedule::random, Schedule::eager};
    auto* const made = new std::array<RecordedGpu*, 3>;
    for (int i = 0; i < 3; ++i) {
      RecordingOptions options;
      options.devices = i + 1;
      options.device_bytes = std::int64_t{16} << 30;
      options.module_bytes = 0;  // limits of tests are for programs alone
      options.maps_memory = i != 1;
      options.schedule = schedules[static_cast<std::size_t>(i)];
      auto* const gpu = new RecordedGpu(options, i);
      const Status known = register_device(gpu->device);
      const Status made_by = backend::register_backend(
          std::string(gpu->device->name()),
          [gpu](std::shared_ptr<Device>) -> Result<std::shared_ptr<KernelProvider>> {
            return gpu->provider();
          });
      if (!known.ok() || !made_by.ok()) std::abort();
      (*made)[static_cast<std::size_t>(i)] = gpu;
    }
    return made;
  }();
  return *gpus->at(static_cast<std::size_t>(ordinal));
}

std::string complaints(const RecordedGpu& gpu) {
  std::string found;
  for (const std::string& violation : gpu.driver.violations()) found += violation + "\n";
  if (const std::int64_t pieces = gpu.driver.pending(); pieces > 0) {
    found += std::to_string(pieces) + " pieces of work were not waited for\n";
  }
  return found;
}

}  // namespace plimsoll::device::cuda
