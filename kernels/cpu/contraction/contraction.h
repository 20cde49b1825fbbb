// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// dot: floats of at most 32 bits and integers of a byte through oneDNN, large ones and other dtypes
// by loops of our own.
KernelResult make_dot(const ir::Instruction& instruction);
// convolution: through oneDNN where one of its three directions expresses it, else direct loops.
KernelResult make_convolution(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
