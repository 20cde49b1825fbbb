// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "runtime/backend/backends.h"
#include "runtime/device/devices.h"

namespace plimsoll {

// What makes the kernels of the device that tests run on.
inline Result<std::shared_ptr<device::KernelProvider>> create_provider() {
  return backend::create_kernels(device::default_device());
}

// One for all tests of a program; never freed.
inline device::KernelProvider& provider() {
  static const auto* const instance =
      new std::shared_ptr<device::KernelProvider>(create_provider().value());
  return **instance;
}

}  // namespace plimsoll
