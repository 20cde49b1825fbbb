// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/device/device.h"

namespace plimsoll::device {

// The host CPU: streams run their work at enqueue, on the calling thread and the shared thread
// pool.
std::shared_ptr<Device> cpu_device();

}  // namespace plimsoll::device
