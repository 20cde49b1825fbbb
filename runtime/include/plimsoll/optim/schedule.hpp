// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

// Learning rates as functions of the step number (from 0).
namespace plimsoll::optim {

// Rises linearly over `warmup_steps`, then falls along half a cosine to `last_rate` at
// `total_steps`.
struct CosineSchedule {
  double peak_rate = 1e-3;
  std::int64_t total_steps = 1;
  std::int64_t warmup_steps = 0;
  double last_rate = 0;

  double operator()(std::int64_t step) const {
    if (step < warmup_steps) {
      return peak_rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    }
    const auto span = static_cast<double>(std::max<std::int64_t>(total_steps - warmup_steps, 1));
    const double done = std::min(1.0, static_cast<double>(step - warmup_steps) / span);
    return last_rate + (peak_rate - last_rate) * 0.5 * (1 + std::cos(3.141592653589793 * done));
  }
};

// Multiplied by `factor` after every `interval` steps.
struct StepSchedule {
  double first_rate = 0.1;
  std::int64_t interval = 1;
  double factor = 0.1;

  double operator()(std::int64_t step) const {
    return first_rate * std::pow(factor, static_cast<double>(step / interval));
  }
};

}  // namespace plimsoll::optim
