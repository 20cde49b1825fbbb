// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <string>

#include "jit/emit/kernel_code.h"
#include "jit/reductions/reduction_plan.h"

namespace plimsoll::jit {

// Writes the phase of a reduction that reads the operands: to the results where one block makes a
// result, else to the workspace. Every unit is a block of one result (rows) or of a run of results
// (columns). The phase's estimate is for `element_seconds` per operand element.
Result<Phase> write_sweep(const ReductionPlan& plan, const KernelTarget& target,
                          llvm::Module& module, const std::string& name, double element_seconds);

}  // namespace plimsoll::jit
