// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/kernel_base.h"
#include "runtime/ir/module.h"

namespace plimsoll::kernels {

// topk: of each line of the last dim the k first in the order of a stable sort, in total order,
// with their places, without sorting the others: what does not come before the worst of those that
// are kept is passed over, and what does is gathered until there is enough of it to be cut to k
// again. Takes no more scratch memory than a few times k for each of up to eight tasks.
KernelResult make_top_k(const ir::Instruction& instruction);

}  // namespace plimsoll::kernels
