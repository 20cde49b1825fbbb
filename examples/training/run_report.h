// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::examples {

struct StepRecord {
  double seconds = 0;
  float loss = 0;
};

// What one training run did, in numbers. Bytes are of device memory; 0 means unlimited for the
// limit, and unknown elsewhere.
struct RunReport {
  std::string program;
  std::string planner;
  std::uint64_t seed = 0;
  std::int64_t batch = 0;
  std::int64_t parameters = 0;
  std::int64_t limit_bytes = 0;
  std::int64_t floor_bytes = 0;
  std::int64_t unlimited_peak_bytes = 0;
  std::int64_t planned_peak_bytes = 0;
  std::int64_t measured_peak_bytes = 0;
  std::int64_t recomputed_bytes_per_step = 0;
  // Values a step stores by a codec that changes bits, and that codec; empty: none.
  std::int64_t lossy_encodes_per_step = 0;
  std::string lossy_codec;
  double training_seconds = 0;
  double test_accuracy = -1;  // below 0: not measured
  std::string weights_sha256;
  std::vector<StepRecord> steps;

  float final_loss() const { return steps.empty() ? 0.0f : steps.back().loss; }
  // The median over the steps but the first, which also plans and compiles.
  double median_step_seconds() const;
};

// One JSON object.
std::string to_json(const RunReport& report);
// One self-contained page: the numbers and charts of loss and step time.
std::string to_html(const RunReport& report);
// Writes JSON, or HTML where the file's name ends in .html. Throws plimsoll::Error.
void write_report(const RunReport& report, const std::filesystem::path& path);

}  // namespace plimsoll::examples
