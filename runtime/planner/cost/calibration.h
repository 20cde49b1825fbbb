// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/planner/cost/cost_model.h"

namespace plimsoll::planner {

// A machine's speeds, of one measurement or the best of several.
struct Calibration {
  Roofline speeds;
  std::int64_t measurements = 1;
  bool is_settled = false;  // measuring again would change little
  bool operator==(const Calibration&) const = default;
};

// Of every figure the better one: whatever else a machine does while it is measured only takes
// time. What caches keep goes with the smaller price of a missed byte.
Roofline faster_of(const Roofline& a, const Roofline& b);

// Whether two measurements say the same of what kernels take, to a quarter.
bool agree(const Roofline& a, const Roofline& b);

// A machine's calibration as text, one number a line, with what it holds for (`machine`: the CPU
// and its threads) and a checksum.
std::string calibration_text(const Calibration& calibration, std::string_view machine);

// The inverse; nothing for a text of another version or machine, one that was damaged, or speeds
// that no machine has.
std::optional<Calibration> parse_calibration(std::string_view text, std::string_view machine);

}  // namespace plimsoll::planner
