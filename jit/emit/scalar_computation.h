// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "runtime/base/status.h"
#include "runtime/ir/module.h"

namespace plimsoll::jit {

// The results of a computation on scalars, one per leaf, on `arguments` (all of one width): what
// reductions, scatters and windows apply. Precondition: check_scalar_computation (graph/graph.h).
Result<std::vector<llvm::Value*>> apply_scalars(llvm::IRBuilderBase& builder,
                                                const ir::Computation& computation,
                                                const std::vector<llvm::Value*>& arguments);

}  // namespace plimsoll::jit
