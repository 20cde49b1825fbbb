// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// In row_plan.h's terms. Precondition: `graph` is a row fusion.
Result<KernelCode> write_row_kernel(const KernelGraph& graph, const KernelTarget& target);

}  // namespace plimsoll::jit
