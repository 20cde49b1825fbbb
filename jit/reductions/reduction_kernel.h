// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "jit/emit/kernel_code.h"
#include "jit/graph/graph.h"
#include "jit/reductions/reduction_plan.h"
#include "runtime/base/status.h"

namespace plimsoll::jit {

// Adds its phases to `code`, in reduction_shape.h's terms. Precondition: a reduce in `graph`, which
// is no row fusion.
Status write_reduction_kernel(const KernelGraph& graph, const KernelTarget& target,
                              KernelCode& code);

// The phase that combines the blocks' results, which lie in the workspace.
Result<Phase> write_combination(const ReductionPlan& plan, llvm::Module& module,
                                const std::string& name);

}  // namespace plimsoll::jit
