// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "benchmarks/training_steps/workload.h"

namespace plimsoll::benchmarks {

// How plans are made: a planner's name, PLIMSOLL_REMEDIES and PLIMSOLL_HOST_LIMIT.
struct Method {
  std::string name, planner, remedies, host_limit;
};

struct MeasureOptions {
  std::vector<double> percents = {70, 50, 35, 25};  // of the unlimited peak; the floor comes last
  int rounds = 7;                                   // beside the first, which isn't counted
};

// A training step under one limit by one method. Times are over those of the plan without a limit,
// which ran in turns with this one.
struct StepRow {
  std::string workload, limit, method;
  std::int64_t limit_bytes = 0;
  std::int64_t floor_bytes = 0;  // above the limit: it didn't run
  bool ran = false;
  double step_seconds = 0;  // median
  double cpu_percent = 0;   // the same in the process's CPU time, which other programs disturb less
  double measured_percent = 0;                          // slower than without a limit
  double predicted_percent = 0;                         // the plan's own word
  double lower_bound_percent = 0;                       // no plan is faster, says the plan
  double predicted_seconds = 0, unlimited_seconds = 0;  // predicted
  double planning_seconds = 0;
  std::int64_t peak_bytes = 0;  // measured
  bool same_bits = true;        // loss and weights after every step, by SHA-256
  std::string sha256;           // after the last step
  std::int64_t recomputes = 0, encodes = 0, swaps = 0;
};

// Plain recomputation, all lossless remedies with a host tier, and the two classics.
std::vector<Method> all_methods();

// The step as HLO text, as recorded: parameters are not marked as donated.
std::string step_text(const Workload& workload);

// Calls `progress` with every row as it is done.
std::vector<StepRow> measure(const Workload& workload, const std::vector<Method>& methods,
                             const MeasureOptions& options,
                             const std::function<void(const StepRow&)>& progress);

}  // namespace plimsoll::benchmarks
