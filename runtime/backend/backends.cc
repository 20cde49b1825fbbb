// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/backends.h"

#include <map>
#include <mutex>
#include <utility>

#include "kernels/kernels.h"
#include "runtime/backend/cpu_kernels.h"
#include "runtime/backend/cuda_kernels.h"
#include "runtime/base/fork.h"

namespace plimsoll::backend {
namespace {

struct Backends {
  ProcessMutex mutex;
  std::map<std::string, MakeKernels, std::less<>> by_device{{"cpu", CpuKernels::create},
                                                            {"cuda", CudaKernels::create}};
};

Backends& backends() {
  static Backends* const instance = new Backends;  // never destroyed, as devices are
  return *instance;
}

}  // namespace

Result<std::shared_ptr<device::KernelProvider>> create_kernels(
    std::shared_ptr<device::Device> device) {
  MakeKernels make;
  {
    Backends& known = backends();
    const std::lock_guard lock(known.mutex);
    // By its name, else by its kind: "cuda" for "cuda:0".
    const std::string_view name = device->name();
    auto found = known.by_device.find(name);
    if (found == known.by_device.end())
      found = known.by_device.find(name.substr(0, name.find(':')));
    if (found != known.by_device.end()) make = found->second;
  }
  if (make == nullptr) {
    return unimplemented("device '" + std::string(device->name()) +
                         "' has nothing that makes its " + "kernels");
  }
  return make(std::move(device));
}

Status register_backend(std::string device_name, MakeKernels make) {
  Backends& known = backends();
  const std::lock_guard lock(known.mutex);
  const bool added = known.by_device.emplace(device_name, std::move(make)).second;
  return added ? ok_status()
               : Status(StatusCode::already_exists,
                        "device '" + device_name + "': there is a backend for it");
}

Status register_custom_call(std::string target, device::CustomCall function) {
  return kernels::register_custom_call(std::move(target), std::move(function));
}

}  // namespace plimsoll::backend
