// SPDX-License-Identifier: Apache-2.0
#include "examples/training/run_report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "examples/training/text_format.h"
#include "plimsoll/error.hpp"

namespace plimsoll::examples {
namespace {

// A polyline chart of one number per step.
std::string chart(const RunReport& report, const std::string& title,
                  const std::function<double(const StepRecord&)>& value) {
  constexpr double kWidth = 720;
  constexpr double kHeight = 200;
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  for (const StepRecord& step : report.steps) {
    if (!std::isfinite(value(step))) continue;
    low = std::min(low, value(step));
    high = std::max(high, value(step));
  }
  std::ostringstream out;
  out << "<h2>" << title << "</h2>\n";
  if (low > high) return out.str() + "<p>no finite value</p>\n";
  const double span = high > low ? high - low : 1.0;
  const double last = std::max<double>(1.0, static_cast<double>(report.steps.size()) - 1.0);
  out << "<svg viewBox=\"-70 -10 " << kWidth + 80 << ' ' << kHeight + 20
      << "\" width=\"800\" role=\"img\" aria-label=\"" << title << "\"><polyline points=\"";
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const double y = value(report.steps[i]);
    if (!std::isfinite(y)) continue;
    out << kWidth * static_cast<double>(i) / last << ',' << kHeight * (1.0 - (y - low) / span)
        << ' ';
  }
  out << "\" fill=\"none\" stroke=\"#1f5fa8\"/>\n<text x=\"-5\" y=\"8\" text-anchor=\"end\">"
      << format_number(high) << "</text><text x=\"-5\" y=\"" << kHeight << "\" text-anchor=\"end\">"
      << format_number(low) << "</text></svg>\n";
  return out.str();
}

}  // namespace

double RunReport::median_step_seconds() const {
  std::vector<double> seconds;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) {
    seconds.push_back(steps[i].seconds);
  }
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

std::string to_json(const RunReport& report) {
  nlohmann::ordered_json json;
  json["program"] = report.program;
  json["planner"] = report.planner;
  json["seed"] = report.seed;
  json["batch"] = report.batch;
  json["parameters"] = report.parameters;
  json["limit_bytes"] = report.limit_bytes;
  json["floor_bytes"] = report.floor_bytes;
  json["unlimited_peak_bytes"] = report.unlimited_peak_bytes;
  json["peak_bytes"] = report.planned_peak_bytes;
  json["measured_peak_bytes"] = report.measured_peak_bytes;
  json["recomputed_bytes_per_step"] = report.recomputed_bytes_per_step;
  json["lossy_encodes_per_step"] = report.lossy_encodes_per_step;
  json["lossy_codec"] = report.lossy_codec;
  json["training_seconds"] = report.training_seconds;
  json["median_step_seconds"] = report.median_step_seconds();
  json["final_loss"] = report.final_loss();
  json["test_accuracy"] = report.test_accuracy < 0 ? nlohmann::ordered_json()
                                                   : nlohmann::ordered_json(report.test_accuracy);
  json["weights_sha256"] = report.weights_sha256;
  auto& steps = json["steps"] = nlohmann::ordered_json::array();
  for (const StepRecord& step : report.steps) {
    steps.push_back({{"seconds", step.seconds}, {"loss", step.loss}});
  }
  return json.dump(2);
}

std::string to_html(const RunReport& report) {
  std::ostringstream out;
  out << "<!doctype html>\n<meta charset=\"utf-8\">\n<title>" << report.program
      << "</title>\n<style>body{font:14px sans-serif;margin:2em auto;max-width:60em}"
         "td{padding:2px 1em 2px 0}text{font-size:11px}</style>\n<h1>"
      << report.program << "</h1>\n<table>\n";
  const auto row = [&](const char* name, const std::string& value) {
    out << "<tr><td>" << name << "</td><td>" << value << "</td></tr>\n";
  };
  row("planner", report.planner);
  row("seed", std::to_string(report.seed));
  row("batch", std::to_string(report.batch));
  row("parameters", std::to_string(report.parameters));
  row("limit", report.limit_bytes == 0 ? "none" : format_bytes(report.limit_bytes));
  row("floor", format_bytes(report.floor_bytes));
  row("unlimited peak", format_bytes(report.unlimited_peak_bytes));
  row("planned peak", format_bytes(report.planned_peak_bytes));
  row("measured peak", format_bytes(report.measured_peak_bytes));
  row("recomputed per step", format_bytes(report.recomputed_bytes_per_step));
  if (report.lossy_encodes_per_step > 0) {
    row("stored with loss per step",
        std::to_string(report.lossy_encodes_per_step) + " by " + report.lossy_codec);
  }
  row("steps", std::to_string(report.steps.size()));
  row("median step", format_number(1e3 * report.median_step_seconds()) + " ms");
  row("training time", format_number(report.training_seconds) + " s");
  row("final loss", format_number(report.final_loss()));
  if (report.test_accuracy >= 0) {
    row("test accuracy", format_number(100 * report.test_accuracy) + " %");
  }
  row("SHA-256 of the weights", report.weights_sha256);
  out << "</table>\n"
      << chart(report, "Loss", [](const StepRecord& s) { return static_cast<double>(s.loss); })
      << chart(report, "Step time in ms", [](const StepRecord& s) { return 1e3 * s.seconds; });
  return out.str();
}

void write_report(const RunReport& report, const std::filesystem::path& path) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << (path.extension() == ".html" ? to_html(report) : to_json(report) + "\n");
  out.close();
  if (!out) {
    throw Error(ErrorCode::unavailable,
                "cannot write the report " + path.string() + ": " + std::strerror(errno));
  }
}

}  // namespace plimsoll::examples
