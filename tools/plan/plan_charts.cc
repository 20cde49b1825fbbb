// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_charts.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/ir/module.h"
#include "tools/plan/plan_view.h"

namespace plimsoll::tools {
namespace {

using planner::StepKind;

std::string open_svg(double width, double height) {
  return "<svg viewBox='0 0 " + number(width) + " " + number(height) + "'>\n";
}

std::string text_at(double x, double y, std::string_view text) {
  return "<text x='" + number(x) + "' y='" + number(y) + "'>" + escape_html(text) + "</text>\n";
}

// The step at which the transfer that step `i` starts has ended.
std::size_t end_of(const planner::Plan& plan, std::size_t i) {
  for (std::size_t j = i + 1; j < plan.steps.size(); ++j) {
    const planner::Step& step = plan.steps[j];
    if (step.kind == StepKind::swap_wait && step.transfer == static_cast<std::int32_t>(i)) return j;
  }
  return i;
}

std::vector<std::int64_t> bytes_elsewhere(const planner::Plan& plan) {
  std::vector<std::int64_t> change(plan.steps.size() + 1, 0);
  for (const planner::Buffer& buffer : plan.buffers) {
    if (!is_tier(buffer.placement)) continue;
    change[static_cast<std::size_t>(buffer.first_step)] += buffer.bytes;
    change[static_cast<std::size_t>(buffer.last_step) + 1] -= buffer.bytes;
  }
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
  return change;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string step_lanes(const planner::Plan& plan, double width) {
  constexpr double kLane = 22, kCurve = 80;
  constexpr struct {
    StepKind kind;
    const char* style;
    const char* label;
  } kLanes[] = {{StepKind::encode, "encode", "encode"},
                {StepKind::decode, "decode", "decode"},
                {StepKind::swap_out, "swap-out", "swap out"},
                {StepKind::swap_in, "swap-in", "swap in"}};
  std::string shapes;
  double y = 0;
  const double scale = width / static_cast<double>(std::max<std::size_t>(plan.steps.size(), 1));
  for (const auto& lane : kLanes) {
    std::string blocks;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const planner::Step& step = plan.steps[i];
      if (step.kind != lane.kind) continue;
      const std::size_t last = end_of(plan, i);
      const std::string name = step.instruction == nullptr ? "" : step.instruction->name();
      const std::string codec =
          step.codec.kind == ir::CodecKind::none ? "" : " by " + to_string(step.codec);
      blocks += "<rect class='" + std::string(lane.style) + "' x='" +
                number(static_cast<double>(i) * scale) + "' y='" + number(y + 3) + "' width='" +
                number(std::max(static_cast<double>(last - i + 1) * scale, 0.8)) + "' height='" +
                number(kLane - 6) + "'><title>" +
                escape_html(std::string(lane.label) + " " + name + codec + ", steps " +
                            std::to_string(i) + " to " + std::to_string(last)) +
                "</title></rect>\n";
    }
    if (blocks.empty()) continue;
    shapes += blocks + text_at(4, y + kLane - 7, lane.label);
    y += kLane;
  }
  if (shapes.empty()) return "";
  if (plan.tier_bytes != PerTier<std::int64_t>()) {
    std::string labels;
    for (const MemorySpace tier : kTiers) {
      labels += (labels.empty() ? "" : " and ") + std::string(tier_label(tier));
    }
    const std::vector<std::int64_t> bytes = bytes_elsewhere(plan);
    const std::int64_t most =
        std::max<std::int64_t>(*std::max_element(bytes.begin(), bytes.end()), 1);
    shapes += "<polyline class='host' points='";
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const double level =
          y + kCurve - static_cast<double>(bytes[i]) / static_cast<double>(most) * (kCurve - 16);
      shapes += number(static_cast<double>(i) * scale) + "," + number(level) + " " +
                number(static_cast<double>(i + 1) * scale) + "," + number(level) + " ";
    }
    shapes += "'/>\n" + text_at(4, y + 12, labels + ", at most " + format_bytes(most));
    y += kCurve;
  }
  return open_svg(width, y + 4) + shapes + "</svg>\n";
}

std::string frontier_chart(std::span<const FrontierPoint> points, std::int64_t limit_bytes,
                           double predicted_seconds, double width) {
  constexpr double kHeight = 260, kMargin = 60;
  if (points.empty()) return "";
  const double low = static_cast<double>(points.front().limit_bytes);
  const double high = std::max(static_cast<double>(points.back().limit_bytes), low + 1);
  double fastest = points.back().predicted_seconds, slowest = points.front().predicted_seconds;
  for (const FrontierPoint& point : points) {
    fastest = std::min(fastest, point.lower_bound_seconds);
    slowest = std::max(slowest, point.predicted_seconds);
  }
  const double range = std::max(slowest - fastest, 1e-3 * std::max(slowest, 1e-12));
  const auto x = [&](double bytes) {
    return kMargin + (bytes - low) / (high - low) * (width - 2 * kMargin);
  };
  const auto y = [&](double seconds) {
    return kMargin / 2 + (slowest - seconds) / range * (kHeight - kMargin);
  };
  std::string found, bound, dots;
  for (const FrontierPoint& point : points) {
    const double at = x(static_cast<double>(point.limit_bytes));
    found += number(at) + "," + number(y(point.predicted_seconds)) + " ";
    bound += number(at) + "," + number(y(point.lower_bound_seconds)) + " ";
    dots += "<circle cx='" + number(at) + "' cy='" + number(y(point.predicted_seconds)) +
            "' r='3'><title>limit " + format_bytes(point.limit_bytes) + ": " +
            number(point.predicted_seconds * 1e3) + " ms, at least " +
            number(point.lower_bound_seconds * 1e3) + " ms</title></circle>\n";
  }
  if (limit_bytes != planner::kUnlimited && static_cast<double>(limit_bytes) <= high) {
    dots += "<circle class='chosen' cx='" + number(x(static_cast<double>(limit_bytes))) + "' cy='" +
            number(y(predicted_seconds)) + "' r='4'/>\n";
  }
  return open_svg(width, kHeight) + "<polyline class='bound' points='" + bound +
         "'/>\n<polyline class='points' points='" + found + "'/>\n" + dots +
         text_at(kMargin, kHeight - 6, format_bytes(points.front().limit_bytes)) +
         text_at(width - 2 * kMargin, kHeight - 6, format_bytes(points.back().limit_bytes)) +
         text_at(4, kMargin / 2, number(slowest * 1e3) + " ms") +
         text_at(4, kHeight - kMargin / 2, number(fastest * 1e3) + " ms") + "</svg>\n";
}

}  // namespace plimsoll::tools
