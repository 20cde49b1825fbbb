// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "jit/graph.h"
#include "jit/kernel_code.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// In reduction_shape.h's terms. Precondition: a reduce in `graph`, which is no row fusion.
Result<KernelCode> write_reduction_kernel(const Graph& graph, const Machine& machine);

}  // namespace plimsoll::jit
