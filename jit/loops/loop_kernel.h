// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Computes each root element from its index. Precondition: no reduce in `graph`.
Result<KernelCode> write_loop_kernel(const KernelGraph& graph, const KernelTarget& target);

}  // namespace plimsoll::jit
