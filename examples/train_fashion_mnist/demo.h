// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "examples/train_fashion_mnist/training.h"

namespace plimsoll::examples {

struct DemoRow {
  std::string limit;  // as shown
  RunReport report;
};

// Trains the same steps from the same seed without a limit, at 60 % and 40 % of the peak measured
// there (where a plan fits into that), and at the smallest limit there is a plan for.
std::vector<DemoRow> run_demo(const FashionData& data, const FashionOptions& options);

// One line per row under a heading.
std::string demo_table(const std::vector<DemoRow>& rows);

// Throws plimsoll::Error when two rows have different weights or losses, or one passed its limit.
void check_demo(const std::vector<DemoRow>& rows);

}  // namespace plimsoll::examples
