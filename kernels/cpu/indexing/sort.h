// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// sort: a bottom-up merge sort of positions, always stable. What it does with comparators that are
// no order (NaN under `natural`) is defined too: the merges are those of the interpreter.
KernelResult make_sort(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
