// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tools/plan/planned_program.h"

namespace plimsoll::tools {

struct FrontierPoint {
  std::int64_t limit_bytes = 0, peak_bytes = 0;
  double predicted_seconds = 0, lower_bound_seconds = 0;
};

// The best plan at each of sixteen limits from the floor to the unlimited peak, the floor's first.
// Time never rises with the limit.
Outcome make_frontier(const PlannedProgram& planned, std::int64_t floor_bytes,
                      std::vector<FrontierPoint>& out);

Json frontier_json(const std::vector<FrontierPoint>& points);
std::string frontier_text(const std::vector<FrontierPoint>& points);

}  // namespace plimsoll::tools
