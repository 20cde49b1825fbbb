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
  std::vector<double> percents = {70, 50,
                                  30};  // of the unlimited peak; the floor comes behind them
  int warm_up = 4;   // steps before those that count: times are learned, plans made again by them
  int rounds = 5;    // steps that count
  int profiled = 1;  // steps behind those, of which every kernel is timed
  double seconds = 15;                               // no further row where it would take longer
  std::int64_t host_bytes = std::int64_t{16} << 30;  // of the tier that limited steps may swap to
  int top = 8;                                       // kernels listed
};

// Steps of a training on the device of PLIMSOLL_DEVICE, without a limit or within one; each in a
// context of its own, all make the same steps:
//   {"limit", "limit_bytes", "ran", "why", "step_seconds", "wall_seconds", "predicted_percent",
//    "driver_bytes", "held_bytes", "code_bytes", "peak_bytes", "hash", "hidden_share",
//    "transfer_seconds", "waited_seconds", "recomputes", "encodes", "swaps", "launches",
//    "graph_runs", "first_step_seconds", "planning_seconds", "compile_seconds", "row_seconds",
//    "kernels"}
// with times as medians. `driver_bytes`: what the driver has not got back, less what lies in no
// block; `held_bytes`: with that, which is an earlier row's where its limit was higher.
// `hidden_share`: of the transfers' time, what the run did not wait for; null where nothing is
// swapped. Throws plimsoll::Error.
//
// Without a limit; with "unlimited_peak_bytes" and "floor_bytes" of the step besides.
nlohmann::ordered_json measure_unlimited(const Workload& workload, const GpuStepsOptions& options);
// Of the percents and the floor, as `unlimited` says what they are, from the greatest on.
std::vector<nlohmann::ordered_json> measure_limited(const Workload& workload,
                                                    const GpuStepsOptions& options,
                                                    const nlohmann::ordered_json& unlimited);
// Adds "measured_percent" and "same_bits" to the rows, by the unlimited one; every claim that does
// not hold: bits, the peak and the driver's bytes under the limit.
std::vector<std::string> judge(const std::string& workload, const nlohmann::ordered_json& unlimited,
                               std::vector<nlohmann::ordered_json>& rows);

// The largest batch of the GPT whose step has a plan within `limit_bytes`, found by planning alone,
// and its steps' time: {"remedies", "limit_bytes", "batch", "floor_bytes", "planned", "ran",
// "step_seconds", "samples_per_second", "driver_bytes"}. `host_bytes` 0: without swapping.
nlohmann::ordered_json measure_largest_batch(GptSizes sizes, std::int64_t limit_bytes,
                                             std::int64_t host_bytes, double seconds);

}  // namespace plimsoll::benchmarks
