// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// A dot that reads slices of its operands where they lie (ir/fusions/sliced_operands.h): the kernel
// of the dot, at addresses that follow from the indices. Its bits are those of the dot of copies.
KernelResult make_sliced_dot(const ir::Instruction& fusion);

}  // namespace plimsoll::kernels
