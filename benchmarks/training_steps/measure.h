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
  int warm_up = 40;  // steps of a block before those that count, of which there are two or more
  int rounds = 7;    // blocks that count
  int block = 5;     // steps of a block that count; one before them does not
};

// A training step under one limit by one method. Times are over those of the plan without a limit,
// which ran in turns with this one, block by block of steps: the median over the blocks.
struct StepRow {
  std::string workload, limit, method;
  std::int64_t limit_bytes = 0;
  std::int64_t floor_bytes = 0;  // above the limit: it didn't run
  bool ran = false;
  std::int64_t segments = 0;  // the step's pieces, where it fits in pieces alone; predicts nothing
  double step_seconds = 0;    // the median; 0 where plans changed to the end
  double cpu_percent = 0;  // the same in the process's CPU time, which other programs disturb less
  double measured_percent = 0;     // slower than without a limit
  double predicted_percent = 0;    // after the warm-up, before the first step that counts
  double planned_percent = 0;      // the planner's own word for the plan
  double lower_bound_percent = 0;  // no plan is faster by that
  double predicted_seconds = 0, unlimited_seconds = 0;  // predicted
  std::int64_t replans = 0, trials = 0;
  double planning_seconds = 0;
  std::int64_t peak_bytes = 0;  // measured
  bool same_bits = true;        // loss and weights after every block, by SHA-256
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
