// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/devices.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/fork.h"

namespace plimsoll::device {

// Rooms that stand above this one: cpu/cpu_device.h, cuda/cuda_devices.h.
std::shared_ptr<Device> cpu_device();
namespace cuda {
Result<std::shared_ptr<Device>> open_device(std::string_view name);
std::vector<DeviceListing> list_devices();
}  // namespace cuda

namespace {

constexpr std::string_view kCuda = "cuda";

// Of "cuda", the GPU that launchers mean for this process.
std::string full_name(std::string_view name) {
  if (name != kCuda) return std::string(name);
  const char* const rank = std::getenv("LOCAL_RANK");
  return std::string(kCuda) + ":" + (rank == nullptr || *rank == '\0' ? "0" : rank);
}

struct Registry {
  ProcessMutex mutex;
  std::vector<std::shared_ptr<Device>> devices;

  // With the mutex, the CPU first: made by who asks first, while nobody forks.
  std::vector<std::shared_ptr<Device>>& all() {
    if (devices.empty()) devices.push_back(cpu_device());
    return devices;
  }

  Result<std::shared_ptr<Device>> find(std::string_view asked) {
    const std::string name = full_name(asked);
    const std::lock_guard lock(mutex);
    std::string names;
    for (const std::shared_ptr<Device>& device : all()) {
      if (device->name() == name) return device;
      names += (names.empty() ? "" : ", ") + std::string(device->name());
    }
    std::string why;
    if (name.starts_with(kCuda)) {
      auto opened = cuda::open_device(name);
      if (opened.ok()) {
        devices.push_back(*opened);
        return opened;
      }
      why = ": " + opened.status().message();
    }
    return invalid_argument("device: '" + name + "'" + why + " (there is: " + names + ")");
  }
};

Registry& registry() {
  static Registry* const instance = new Registry;  // never destroyed, as devices are
  return *instance;
}

Result<std::shared_ptr<Device>> device_from_environment() {
  return registry().find(variable_text(Variable::device).text);
}

}  // namespace

Result<std::shared_ptr<Device>> find_device(std::string_view name) { return registry().find(name); }

std::shared_ptr<Device> default_device() {
  auto device = device_from_environment();
  return device.ok() ? *device : cpu_device();
}

Status check_device() {
  const Status status = device_from_environment().status();
  return status.ok() ? status
                     : status.with_context(std::string(variable_info(Variable::device).name));
}

std::vector<DeviceListing> list_devices() {
  std::vector<DeviceListing> found;
  {
    Registry& known = registry();
    const std::lock_guard lock(known.mutex);
    for (const std::shared_ptr<Device>& device : known.all()) {
      found.push_back({std::string(device->name()), device->properties().model});
    }
  }
  for (DeviceListing& listing : cuda::list_devices()) {
    const bool is_known = std::any_of(found.begin(), found.end(), [&](const DeviceListing& other) {
      return other.name == listing.name;
    });
    if (!is_known) found.push_back(std::move(listing));
  }
  return found;
}

Status register_device(std::shared_ptr<Device> device) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const bool taken = std::any_of(known.all().begin(), known.all().end(), [&](const auto& other) {
    return other->name() == device->name();
  });
  if (taken) {
    return Status(StatusCode::already_exists,
                  "device '" + std::string(device->name()) + "': there is one of this name");
  }
  known.devices.push_back(std::move(device));
  return ok_status();
}

}  // namespace plimsoll::device
