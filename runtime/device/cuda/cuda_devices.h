// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/device/devices.h"

namespace plimsoll::device::cuda {

// The GPU that this machine's driver has by a name of the form "cuda:0". NOT_FOUND, with the reason
// and the remedy, where it has none; INVALID_ARGUMENT for another form.
Result<std::shared_ptr<Device>> open_device(std::string_view name);

// The driver's GPUs, none of them used; one listing that says why where there is none.
std::vector<DeviceListing> list_devices();

}  // namespace plimsoll::device::cuda
