// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// map: a scalar computation on every element of arrays of one shape.
KernelResult make_map(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
