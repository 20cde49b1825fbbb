// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/planner/planner.h"

namespace plimsoll::planner {

// Per leaf of the entry's parameters: donated where input_output_alias or buffer_donor names it,
// else resident.
std::vector<ParameterResidency> default_residency(const ir::Module& module);

}  // namespace plimsoll::planner
