// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace plimsoll::tools {

// plan_report.html, as CMake has put it into the program.
extern const std::string_view kPlanReportPage;

}  // namespace plimsoll::tools
