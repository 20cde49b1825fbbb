// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/devices.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/fork.h"

namespace plimsoll::device {

std::shared_ptr<Device> cpu_device();  // cpu/cpu_device.h, which stands above this

namespace {

struct Registry {
  ProcessMutex mutex;
  std::vector<std::shared_ptr<Device>> devices{cpu_device()};

  Result<std::shared_ptr<Device>> find(std::string_view name) {
    const std::lock_guard lock(mutex);
    std::string names;
    for (const std::shared_ptr<Device>& device : devices) {
      if (device->name() == name) return device;
      names += (names.empty() ? "" : ", ") + std::string(device->name());
    }
    return invalid_argument("device: '" + std::string(name) + "' (there is: " + names + ")");
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

Status register_device(std::shared_ptr<Device> device) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const bool taken =
      std::any_of(known.devices.begin(), known.devices.end(),
                  [&](const auto& other) { return other->name() == device->name(); });
  if (taken) {
    return Status(StatusCode::already_exists,
                  "device '" + std::string(device->name()) + "': there is one of this name");
  }
  known.devices.push_back(std::move(device));
  return ok_status();
}

}  // namespace plimsoll::device
