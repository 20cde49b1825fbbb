// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// True when make_kernel has an implementation: dot, convolution, reduce-window, select-and-scatter,
// sort, scatter, map, rng, rng-bit-generator, custom-call (registered), fusions that are an
// attention (ir/fusions/attention.h), and collectives of one participant. Pure; cheap.
bool supports(const ir::Instruction& instruction);

// The kernel of one instruction; it keeps no reference to it. Thread-safe.
Result<std::shared_ptr<const device::Kernel>> make_kernel(const ir::Instruction& instruction);

// Custom calls: `function` gets the launch's arguments and the instruction's backend_config text.
// Registering a name twice is ALREADY_EXISTS. Thread-safe.
using CustomCall = std::function<Status(const device::KernelArguments&, const std::string& config)>;
Status register_custom_call(std::string target, CustomCall function);

}  // namespace plimsoll::kernels
