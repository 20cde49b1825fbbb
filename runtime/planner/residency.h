// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "runtime/ir/host_leaves.h"
#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// Per leaf of the entry's parameters: donated where input_output_alias or buffer_donor names it,
// else resident.
std::vector<ParameterResidency> default_residency(const ir::Module& module);

// Question::results_on_host of results in these memories.
std::vector<bool> results_on_host(std::span<const ir::ArrayMemory> memories);

// What the program itself asks for, without a limit: its default residency, but host memory where
// its header says so (ir/host_leaves.h), of parameters and of results. INVALID_ARGUMENT for a
// header that names leaves which it has not.
Result<Question> default_question(const ir::Module& module);

}  // namespace plimsoll::planner
