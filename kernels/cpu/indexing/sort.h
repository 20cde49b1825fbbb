// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// sort: of positions, always stable. By digits of the keys (radix_sort.h) where the comparator
// orders keys (sort_by_keys.h), or numbers none of which is a NaN; elsewhere by merges bottom up.
// What these do with comparators that are no order (NaN under `natural`) is defined too: they are
// those of the interpreter.
KernelResult make_sort(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
