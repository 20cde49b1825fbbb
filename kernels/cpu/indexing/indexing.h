// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// scatter: in place when the result is the operand's buffer. Every element sees its updates in
// row-major order of the updates; tasks own disjoint parts of the operand.
KernelResult make_scatter(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
