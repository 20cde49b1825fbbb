// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/planner/cost/cost_model.h"

namespace plimsoll::planner {

// A machine's measured speeds as text, one number a line, with what they hold for (`machine`: the
// CPU and its threads) and a checksum.
std::string calibration_text(const Roofline& roofline, std::string_view machine);

// The inverse; nothing for a text of another version or machine, one that was damaged, or speeds
// that no machine has.
std::optional<Roofline> parse_calibration(std::string_view text, std::string_view machine);

}  // namespace plimsoll::planner
