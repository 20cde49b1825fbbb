// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/custom_call.h"
#include "runtime/device/device.h"
#include "runtime/device/kernel_provider.h"

namespace plimsoll::backend {

// What makes the kernels of `device`, with the options that the environment says. UNIMPLEMENTED
// for a device without a backend.
Result<std::shared_ptr<device::KernelProvider>> create_kernels(
    std::shared_ptr<device::Device> device);

// Makes a further backend known, for devices of this name, or, without a number, of this kind
// ("cuda" for "cuda:0"). ALREADY_EXISTS where there is one.
// Thread-safe, as all of these.
using MakeKernels =
    std::function<Result<std::shared_ptr<device::KernelProvider>>(std::shared_ptr<device::Device>)>;
Status register_backend(std::string device_name, MakeKernels make);

// Makes a function known that custom calls of `target` run, on the host's CPU (kernels.h).
Status register_custom_call(std::string target, device::CustomCall function);

}  // namespace plimsoll::backend
