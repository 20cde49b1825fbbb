// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/device/kernel.h"
#include "runtime/ir/module.h"

namespace plimsoll::backend {

using KernelOf =
    std::function<Result<std::shared_ptr<const device::Kernel>>(const ir::Instruction&)>;

// The kernel, for a GPU, of what only moves data where no other participant takes part: collectives
// that meet nobody, the halves of asynchronous operations and participants' numbers, by copies of
// the driver's on the device. The operation of an async-start has the kernel that `kernel_of`
// makes. Null: the instruction is something else, or needs a conversion. INVALID_ARGUMENT for
// groups that the module's replicas and partitions do not have.
Result<std::shared_ptr<const device::Kernel>> make_device_copies(const ir::Instruction& instruction,
                                                                 const KernelOf& kernel_of);

}  // namespace plimsoll::backend
