// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Adds the phases that compute each root element from its index. Precondition: no reduce in
// `graph`.
Status write_loop_kernel(const KernelGraph& graph, const KernelTarget& target, KernelCode& code);

}  // namespace plimsoll::jit
