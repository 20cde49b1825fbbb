// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/planner/planner.h"
#include "tools/plan/plan_frontier.h"

namespace plimsoll::tools {

// One self-contained page (plan_report.html), the data in one block of JSON: the picture of memory
// over time with the transfers and codecs below it, the limit, the frontier where there is one,
// what is live at the peak, the steps. `unlimited` is drawn beside the plan.
std::string plan_report(const planner::Plan& plan, const planner::Plan& unlimited,
                        const FoundFloor& floor, const std::vector<FrontierPoint>& frontier,
                        std::string_view title);

}  // namespace plimsoll::tools
