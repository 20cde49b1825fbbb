// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/device/custom_call.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// True when make_kernel has an implementation: dot, convolution, reduce-window, select-and-scatter,
// sort, scatter, map, rng, rng-bit-generator, custom-call (make_kernel refuses unknown targets),
// fusions that are an attention (ir/fusions/attention.h) or a dot of slices
// (ir/fusions/sliced_operands.h), and collectives of one participant. Pure; cheap.
bool supports(const ir::Instruction& instruction);

// The kernel of one instruction; it keeps no reference to it. Thread-safe.
Result<std::shared_ptr<const device::Kernel>> make_kernel(const ir::Instruction& instruction);

// What calls of that name run from here on. Registering a name twice is ALREADY_EXISTS; a name that
// is registered goes before one of the library's own. Thread-safe.
Status register_custom_call(std::string target, device::CustomCall function);

}  // namespace plimsoll::kernels
