// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// The kernel of a sort whose comparator decides by one key or by several in turn, each strictly and
// totally (ir::comparisons_in_turn); null for other comparators. Lines are sorted by the last key
// first, and stably by each one before it: by digits (radix_sort.h), short ones by merges.
std::shared_ptr<const device::Kernel> sort_by_keys(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
