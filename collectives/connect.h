// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "collectives/membership.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

namespace plimsoll::collectives {

// This process's communicator of a kind, "gloo" or "nccl", connected to all others, for programs on
// `device`; INVALID_ARGUMENT for another kind. It keeps the device.
Result<std::unique_ptr<device::Communicator>> connect_processes(
    std::string_view kind, const Membership& membership,
    const std::shared_ptr<device::Device>& device);

}  // namespace plimsoll::collectives
