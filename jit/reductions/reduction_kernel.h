// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// In reduction_shape.h's terms. Precondition: a reduce in `graph`, which is no row fusion.
Result<KernelCode> write_reduction_kernel(const KernelGraph& graph, const KernelTarget& target);

}  // namespace plimsoll::jit
