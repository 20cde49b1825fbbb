// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Adds its phase to `code`, in row_plan.h's terms. Precondition: `graph` is a row fusion.
Status write_row_kernel(const KernelGraph& graph, const KernelTarget& target, KernelCode& code);

}  // namespace plimsoll::jit
