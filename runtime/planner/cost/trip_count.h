// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/ir/module.h"

namespace plimsoll::planner {

// How often a while's body is expected to run: `known_trip_count` of its backend_config, else what
// a counter compared with a constant says, else a guess. At least 1.
double trip_count(const ir::Instruction& loop);

}  // namespace plimsoll::planner
