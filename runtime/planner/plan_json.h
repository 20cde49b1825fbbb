// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "runtime/planner/plan.h"

namespace plimsoll::planner {

// The figures of a plan by the names of docs/command.md, from `peak_bytes` to `arena_at_peak`, for
// everything that reports a plan.
nlohmann::ordered_json plan_json(const Plan& plan);

// Null for kUnlimited.
nlohmann::ordered_json limit_json(std::int64_t limit_bytes);

}  // namespace plimsoll::planner
