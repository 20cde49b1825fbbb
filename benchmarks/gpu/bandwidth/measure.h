// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/device/kernel_provider.h"

namespace plimsoll::benchmarks {

struct BandwidthOptions {
  // Names of kernel_bandwidth/cases.def; empty: default_bandwidth_cases().
  std::vector<std::string> cases;
  std::vector<std::string> dtypes = {"f32", "bf16"};
  std::vector<std::int64_t> array_bytes = {std::int64_t{256} << 20, std::int64_t{4} << 20};
  int rounds = 5;       // turns of copy and kernel
  double seconds = 25;  // no new row after so many
  // A row goes over several sets of buffers, of so many bytes together at least, so that none is in
  // the device's cache when its turn comes; 0: four times what the cache holds.
  std::int64_t rotated_bytes = 0;
  double timed_seconds = 1e-3;  // so long a turn lasts, about
  int most_launches = 512;      // of a turn
};

// A kernel beside a copy between two arrays of the same size, in turns.
struct BandwidthRow {
  std::string name, dtype;
  std::int64_t array_bytes = 0;
  double aim = 0;                        // of the copy's bytes per second
  std::int64_t bytes = 0;                // what a launch must move: every operand and result once
  double seconds = 0, copy_seconds = 0;  // of a launch, medians
  double ratio = 0;                      // bytes per second over the copy's, median over the turns
  std::string error;                     // why there are no times

  double bytes_per_second() const { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }
  // A copy reads and writes every byte.
  double copy_bytes_per_second() const {
    return copy_seconds > 0 ? 2 * static_cast<double>(array_bytes) / copy_seconds : 0;
  }
  bool loses() const { return !error.empty() || ratio < aim; }
};

struct BandwidthReport {
  std::vector<BandwidthRow> rows;     // what loses first, the worst in front
  std::vector<std::string> left_out;  // there was no time for
  // What a kernel of 256 elements takes in a row of them, enqueued one by one and in a graph.
  double launch_seconds = 0, graph_launch_seconds = 0;
};

const std::vector<std::string>& default_bandwidth_cases();

// An error of a row is in the row; INVALID_ARGUMENT for a case that there is none of.
Result<BandwidthReport> measure_bandwidth(device::KernelProvider& provider,
                                          const BandwidthOptions& options);

}  // namespace plimsoll::benchmarks
