// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/planner/planner.h"
#include "runtime/planner/problem/problem.h"

namespace plimsoll::planner {

// `residency` has one entry per parameter leaf. Control-flow ops get their row of `variants` from
// the caller afterwards.
Graph extract(const ir::Computation& computation, Role role,
              std::span<const ParameterResidency> residency, const CostModel& cost_model);

}  // namespace plimsoll::planner
