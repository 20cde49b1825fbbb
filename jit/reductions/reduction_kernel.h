// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Adds its phases to `code`, in reduction_shape.h's terms. Precondition: a reduce in `graph`, which
// is no row fusion.
Status write_reduction_kernel(const KernelGraph& graph, const KernelTarget& target,
                              KernelCode& code);

}  // namespace plimsoll::jit
