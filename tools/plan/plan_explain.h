// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/planner/plan.h"
#include "tools/plan/planned_program.h"

namespace plimsoll::tools {

// What `plan` does with the value `name` of the entry computation, why, and what each other way
// would cost: adds to the text, and `explain` to the JSON. `is_in_text`: the program as given had
// such a value.
Outcome explain_value(const PlannedProgram& planned, const planner::Plan& plan,
                      const std::string& name, bool is_in_text, Output& output);

}  // namespace plimsoll::tools
