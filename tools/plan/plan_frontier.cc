// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_frontier.h"

#include <fmt/core.h>
#include <algorithm>

namespace plimsoll::tools {
namespace {

constexpr int kPoints = 16;

}  // namespace

Outcome make_frontier(const PlannedProgram& planned, std::int64_t floor_bytes,
                      std::vector<FrontierPoint>& out) {
  const std::int64_t top =
      std::max(planned.unlimited().peak_bytes + planned.code_bytes(), floor_bytes);
  for (int i = 0; i < kPoints; ++i) {
    const std::int64_t limit =
        floor_bytes +
        static_cast<std::int64_t>(static_cast<double>(top - floor_bytes) * i / (kPoints - 1));
    const auto plan = planned.fitting_plan(limit);
    PLIMSOLL_PROGRAM_FAULT(plan.status());
    FrontierPoint point{limit, (*plan)->peak_bytes, (*plan)->predicted_seconds,
                        (*plan)->lower_bound_seconds};
    if (!out.empty()) {
      // A plan that is slower than one of a lower limit gives way to that one; a bound that a
      // search for more memory did not reach, to that of a plan that exists.
      if (out.back().predicted_seconds < point.predicted_seconds) {
        point.predicted_seconds = out.back().predicted_seconds;
        point.peak_bytes = out.back().peak_bytes;
      }
      point.lower_bound_seconds =
          std::min(point.lower_bound_seconds, out.back().lower_bound_seconds);
    }
    out.push_back(point);
  }
  return {};
}

Json frontier_json(const std::vector<FrontierPoint>& points) {
  Json list = Json::array();
  for (const FrontierPoint& point : points) {
    list.push_back({{"limit_bytes", point.limit_bytes},
                    {"peak_bytes", point.peak_bytes},
                    {"predicted_seconds", point.predicted_seconds},
                    {"lower_bound_seconds", point.lower_bound_seconds}});
  }
  return list;
}

std::string frontier_text(const std::vector<FrontierPoint>& points) {
  std::string text = "\nfrontier: limit, peak, predicted seconds, at least\n";
  for (const FrontierPoint& point : points) {
    text += fmt::format("  {:14}  {:14}  {:<12.6g}  {:.6g}\n", point.limit_bytes, point.peak_bytes,
                        point.predicted_seconds, point.lower_bound_seconds);
  }
  return text;
}

}  // namespace plimsoll::tools
