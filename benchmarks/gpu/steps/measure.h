// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/training_steps/workload.h"
#include "runtime/device/device.h"

namespace plimsoll::benchmarks {

struct GpuStepsOptions {
  std::vector<double> percents = {70, 50, 30};  // of the unlimited peak; the floor comes besides
  int warm_up = 5;   // steps before those that count: times are learned, plans made again by them
  int rounds = 6;    // steps that count
  int profiled = 2;  // steps behind those, of which every kernel is timed
  double seconds = 15;  // fewer rounds, and in the end fewer limits, where it would take longer
  std::int64_t host_bytes = std::int64_t{16} << 30;  // of the tier that limited steps may swap to
  int top = 8;                                       // kernels listed
};

// Steps of a training on the device of PLIMSOLL_DEVICE: in contexts of their own at the floor, at
// the percents from the least on, and without a limit, so that what the driver holds at most while
// one of them runs is its own doing. All make the same steps; the result is
//   {"workload", "unlimited_peak_bytes", "floor_bytes", "steps", "rows": [{"limit",
//    "limit_bytes", "ran", "step_seconds", "wall_seconds", "measured_percent",
//    "predicted_percent", "driver_bytes", "code_bytes", "peak_bytes", "same_bits", "sha256",
//    "hidden_share", "transfer_seconds", "waited_seconds", "recomputes", "encodes", "swaps",
//    "launches", "graph_runs", "planning_seconds", "compile_seconds", "kernels"}], "missed"}
// with times as medians. `hidden_share`: of the transfers' time, what the run did not wait for;
// null where nothing is swapped. `missed`: every claim that does not hold (bits, driver's bytes).
// Throws plimsoll::Error.
nlohmann::ordered_json measure_gpu_steps(const Workload& workload, const GpuStepsOptions& options);

// The largest batch of the GPT whose step has a plan within `limit_bytes`, found by planning alone,
// and its steps' time: {"remedies", "limit_bytes", "batch", "floor_bytes", "planned", "ran",
// "step_seconds", "samples_per_second", "driver_bytes"}. `host_bytes` 0: without swapping.
nlohmann::ordered_json measure_largest_batch(GptSizes sizes, std::int64_t limit_bytes,
                                             std::int64_t host_bytes, double seconds);

}  // namespace plimsoll::benchmarks
