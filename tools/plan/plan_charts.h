// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/planner/plan.h"
#include "tools/plan/plan_frontier.h"

namespace plimsoll::tools {

// Parts of the report, as SVG.

// The lanes below the picture of memory, one for each kind of step that moves values or changes
// their form, over the same steps, and the bytes in host memory and on disk. Empty for a plan
// without such steps.
std::string step_lanes(const planner::Plan& plan, double width);

// Time over limits, with the lower bound and the plan that was asked for.
std::string frontier_chart(std::span<const FrontierPoint> points, std::int64_t limit_bytes,
                           double predicted_seconds, double width);

std::string escape_html(std::string_view text);
std::string number(double value);  // with two decimals

}  // namespace plimsoll::tools
