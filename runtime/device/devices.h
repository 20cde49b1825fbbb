// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"

namespace plimsoll::device {

// The device of this name: one that is registered, else the GPU that NVIDIA's driver has by it
// ("cuda:0"; "cuda" is that of number LOCAL_RANK, else 0), which is registered then.
// INVALID_ARGUMENT, with the names there are, and with the reason where a GPU can't be used.
Result<std::shared_ptr<Device>> find_device(std::string_view name);

// The one that PLIMSOLL_DEVICE names, else the CPU; what does not say which device it is for runs
// here. A bad name is reported where contexts are made (check_device); here it counts as not set.
std::shared_ptr<Device> default_device();
Status check_device();

// What there is, without using any of it: registered devices, then the GPUs of this machine.
struct DeviceListing {
  std::string name;   // "cpu", "cuda:0"; "cuda" where there is none
  std::string about;  // its model, or why there is none
  bool is_there = true;
};
std::vector<DeviceListing> list_devices();

// Makes a further device known by its name; the CPU always is. ALREADY_EXISTS for a name that is
// taken. Thread-safe, as all of these.
Status register_device(std::shared_ptr<Device> device);

}  // namespace plimsoll::device
