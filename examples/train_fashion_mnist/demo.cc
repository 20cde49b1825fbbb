// SPDX-License-Identifier: Apache-2.0
#include "examples/train_fashion_mnist/demo.h"

#include <array>
#include <cstdio>

#include "examples/training/text_format.h"

namespace plimsoll::examples {
namespace {

DemoRow run_row(const FashionData& data, FashionOptions options, const std::string& name,
                std::int64_t limit_bytes) {
  options.memory_limit = limit_bytes > 0 ? std::to_string(limit_bytes) : "none";
  options.json = limit_bytes == 0;  // the first row also finds the floor
  if (!options.no_progress) std::fprintf(stderr, "limit: %s\n", name.c_str());
  TrainingRun run("train_fashion_mnist", options);
  DemoRow row{name, train(run, data, options, options.demo_steps, false)};
  row.report.limit_bytes = limit_bytes;
  return row;
}

}  // namespace

std::vector<DemoRow> run_demo(const FashionData& data, const FashionOptions& options) {
  std::vector<DemoRow> rows;
  rows.push_back(run_row(data, options, "none", 0));
  const std::int64_t peak = rows[0].report.measured_peak_bytes;
  const std::int64_t floor = rows[0].report.floor_bytes;
  const std::array<std::pair<const char*, std::int64_t>, 3> limits = {
      {{"60 % ", peak * 60 / 100}, {"40 % ", peak * 40 / 100}, {"floor", floor}}};
  for (const auto& [name, bytes] : limits) {
    if (bytes < floor) continue;
    rows.push_back(run_row(data, options, std::string(name) + " = " + format_bytes(bytes), bytes));
  }
  return rows;
}

std::string demo_table(const std::vector<DemoRow>& rows) {
  std::string table;
  const auto line = [&](const char* limit, const char* peak, const char* time, const char* ratio,
                        const char* recomputed, const char* loss, const char* hash) {
    std::array<char, 256> text;
    std::snprintf(text.data(), text.size(), "%-20s %13s %9s %7s %16s %10s  %s\n", limit, peak, time,
                  ratio, recomputed, loss, hash);
    table += text.data();
  };
  line("limit", "measured peak", "step time", "ratio", "recomputed/step", "final loss",
       "SHA-256 of the weights");
  const double base = rows.at(0).report.median_step_seconds();
  for (const DemoRow& row : rows) {
    const RunReport& report = row.report;
    std::array<char, 32> time, ratio, loss;
    std::snprintf(time.data(), time.size(), "%.1f ms", 1e3 * report.median_step_seconds());
    std::snprintf(ratio.data(), ratio.size(), "%.2f", report.median_step_seconds() / base);
    std::snprintf(loss.data(), loss.size(), "%.6f", static_cast<double>(report.final_loss()));
    line(row.limit.c_str(), format_bytes(report.measured_peak_bytes).c_str(), time.data(),
         ratio.data(), format_bytes(report.recomputed_bytes_per_step).c_str(), loss.data(),
         report.weights_sha256.c_str());
  }
  return table;
}

void check_demo(const std::vector<DemoRow>& rows) {
  for (const DemoRow& row : rows) {
    if (row.report.weights_sha256 != rows[0].report.weights_sha256) {
      throw Error(ErrorCode::internal,
                  "the weights at limit " + row.limit + " differ from those without a limit");
    }
    if (row.report.limit_bytes > 0 && row.report.measured_peak_bytes > row.report.limit_bytes) {
      throw Error(ErrorCode::internal,
                  "the measured peak " + std::to_string(row.report.measured_peak_bytes) +
                      " passed the limit " + std::to_string(row.report.limit_bytes));
    }
  }
}

}  // namespace plimsoll::examples
