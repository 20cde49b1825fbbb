// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_report.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/byte_size.h"
#include "runtime/ir/module.h"
#include "tools/plan/plan_charts.h"
#include "tools/plan/plan_view.h"

namespace plimsoll::tools {
namespace {

constexpr double kWidth = 1100, kHeight = 420;
// More would make the page slow; the largest are drawn, the first are listed.
constexpr std::size_t kMostRectangles = 4000;
constexpr std::size_t kMostRows = 2000;

std::string all_names(const PlanView::Value& value) {
  std::string names = value.name;
  for (const std::string& name : value.later_names) names += ", " + name;
  return names;
}

// The scale of the picture: steps to the right, bytes upwards.
struct Scale {
  double steps, bytes;
  double x(double step) const { return step / steps * kWidth; }
  double y(double value) const { return kHeight - value / bytes * kHeight; }
};

// A level across the picture with its label at one end.
std::string line(const Scale& scale, std::int64_t bytes, const char* kind, std::string_view label,
                 bool label_left) {
  const double y = scale.y(static_cast<double>(bytes));
  return "<line class='" + std::string(kind) + "' x1='0' x2='" + number(kWidth) + "' y1='" +
         number(y) + "' y2='" + number(y) + "'/><text x='" + number(label_left ? 4 : kWidth - 4) +
         "' y='" + number(y - 4) + "' text-anchor='" + (label_left ? "start" : "end") + "'>" +
         escape_html(label) + "</text>\n";
}

std::string curve(const Scale& scale, const PlanView& view, const char* kind) {
  std::string points;
  for (std::size_t i = 0; i < view.live_bytes.size(); ++i) {
    const std::string y = number(scale.y(static_cast<double>(view.live_bytes[i])));
    // The unlimited plan has fewer steps; both fill the width.
    const double share = scale.steps / static_cast<double>(view.live_bytes.size());
    points += number(scale.x(static_cast<double>(i) * share)) + "," + y + " " +
              number(scale.x(static_cast<double>(i + 1) * share)) + "," + y + " ";
  }
  return "<polyline class='" + std::string(kind) + "' points='" + points + "'/>\n";
}

std::string rectangle(const Scale& scale, double first, double last, double low, double bytes,
                      const char* kind, std::string_view label) {
  return "<rect class='" + std::string(kind) + "' x='" + number(scale.x(first)) + "' y='" +
         number(scale.y(low + bytes)) + "' width='" +
         number(std::max(scale.x(last) - scale.x(first), 0.2)) + "' height='" +
         number(std::max(bytes / scale.bytes * kHeight, 0.1)) + "'><title>" + escape_html(label) +
         "</title></rect>\n";
}

std::string picture(const planner::Plan& plan, const PlanView& view, const PlanView& unlimited) {
  std::int64_t top = plan.peak_bytes;
  for (const std::int64_t bytes : unlimited.live_bytes) top = std::max(top, bytes);
  if (plan.limit_bytes != planner::kUnlimited && plan.limit_bytes < 2 * top) {
    top = std::max(top, plan.limit_bytes);
  }
  const Scale scale{static_cast<double>(std::max<std::size_t>(plan.steps.size(), 1)),
                    static_cast<double>(std::max<std::int64_t>(top, 1)) * 1.08};
  std::string svg = "<svg viewBox='0 0 " + number(kWidth) + " " + number(kHeight) + "'>\n";
  svg += rectangle(scale, 0, scale.steps, 0, static_cast<double>(view.fixed_bytes), "fixed",
                   "parameters, constants, outputs: " + format_bytes(view.fixed_bytes));
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].placement == planner::Placement::arena) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  if (order.size() > kMostRectangles) order.resize(kMostRectangles);
  for (const std::size_t i : order) {
    const planner::Buffer& buffer = plan.buffers[i];
    const PlanView::Value& value = view.values[i];
    svg += rectangle(
        scale, buffer.first_step, buffer.last_step + 1,
        static_cast<double>(view.fixed_bytes + buffer.offset), static_cast<double>(buffer.bytes),
        value.workspace    ? "workspace"
        : value.recomputed ? "recomputed"
                           : "kept",
        all_names(value) + " " + value.shape + ": " + format_bytes(buffer.bytes) + ", steps " +
            std::to_string(buffer.first_step) + " to " + std::to_string(buffer.last_step));
  }
  svg += curve(scale, unlimited, "unlimited") + curve(scale, view, "live");
  if (plan.limit_bytes != planner::kUnlimited && plan.limit_bytes <= top) {
    svg += line(scale, plan.limit_bytes, "limit", "limit " + format_bytes(plan.limit_bytes), false);
  }
  svg += line(scale, plan.peak_bytes, "peak", "peak " + format_bytes(plan.peak_bytes), true);
  return svg + "</svg>\n";
}

std::string row(std::initializer_list<std::string> cells) {
  std::string text = "<tr>";
  for (const std::string& cell : cells) text += "<td>" + escape_html(cell) + "</td>";
  return text + "</tr>\n";
}

constexpr std::string_view kStyle = R"(
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1150px;padding:0 1em;color:#222}
svg{width:100%;background:#f7f8fa;border:1px solid #ccd}
text{font-size:12px;fill:#333}
rect{stroke:#fff;stroke-width:.3}
.fixed{fill:#9aa7b8}.kept{fill:#7fb2e5}.recomputed{fill:#f0a35e}.workspace{fill:#b9a3d6}
polyline{fill:none;stroke-width:1.4}.live{stroke:#134}.unlimited{stroke:#999;stroke-dasharray:5 4}
line{stroke-width:1.4}.limit{stroke:#c22}.peak{stroke:#134;stroke-dasharray:2 3}
.encode{fill:#6bbf8a}.decode{fill:#3b8f63}.swap-out{fill:#d98cc0}.swap-in{fill:#9b4f8a}.host{stroke:#9b4f8a}
.points{stroke:#7a2ea0}.bound{stroke:#999;stroke-dasharray:4 3}circle{fill:#7a2ea0}.chosen{fill:#c22}
table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #e3e6ea}
i{display:inline-block;width:12px;height:12px;margin:0 4px 0 14px;vertical-align:-1px}
)";

}  // namespace

std::string plan_report(const planner::Plan& plan, const planner::Plan& unlimited,
                        const planner::Floor& floor, std::span<const FrontierPoint> frontier,
                        std::string_view title) {
  const PlanView view = view_plan(plan);
  const PlanView unlimited_view = view_plan(unlimited);
  std::string page = "<!doctype html>\n<html lang='en'><meta charset='utf-8'><title>" +
                     escape_html(title) + "</title>\n<style>" + std::string(kStyle) +
                     "</style>\n<h1>" + escape_html(title) + "</h1>\n<table>\n";
  page += row(
      {"limit", plan.limit_bytes == planner::kUnlimited ? "none" : format_bytes(plan.limit_bytes)});
  page += row({"peak", format_bytes(plan.peak_bytes)});
  page += row({"smallest limit that would do",
               format_bytes(floor.bytes) + ", at least " + format_bytes(floor.lower_bound_bytes) +
                   " (gap <= " +
                   number(gap_percent(static_cast<double>(floor.bytes),
                                      static_cast<double>(floor.lower_bound_bytes))) +
                   " %)"});
  page += row({"pinned by", floor.culprit});
  page += row({"peak without a limit", format_bytes(unlimited.peak_bytes)});
  page += row({"predicted time",
               number(plan.predicted_seconds * 1e3) + " ms; without a limit " +
                   number(plan.unlimited_seconds * 1e3) + " ms; at least " +
                   number(plan.lower_bound_seconds * 1e3) + " ms (gap <= " +
                   number(gap_percent(plan.predicted_seconds, plan.lower_bound_seconds)) + " %)"});
  page += row({"recomputed", std::to_string(plan.counts.recompute) + " steps, " +
                                 format_bytes(plan.recomputed_bytes)});
  if (plan.counts.all_encodes() > 0) {
    const auto times = [](std::int64_t all, std::int64_t inside) {
      return std::to_string(all) + " times (" + std::to_string(inside) + " inside kernels)";
    };
    page +=
        row({"compressed",
             times(plan.counts.all_encodes(), plan.counts.fused_encode) + ", back " +
                 times(plan.counts.decode + plan.counts.fused_decode, plan.counts.fused_decode)});
  }
  if (plan.counts.swap_out + plan.counts.swap_in > 0) {
    std::string bytes;
    for (const MemorySpace tier : kTiers) {
      bytes += (bytes.empty() ? "" : ", ") + format_bytes(plan.tier_bytes[tier]) + " of " +
               std::string(tier_info(tier).holder);
    }
    page += row({"swapped", std::to_string(plan.counts.swap_out) + " times out, " +
                                std::to_string(plan.counts.swap_in) + " times in; " + bytes});
  }
  page += row({"policy", plan.policy});
  page += "</table>\n<h2>Memory over time</h2>\n" + picture(plan, view, unlimited_view);
  page += step_lanes(plan, kWidth);
  page +=
      "<p>Steps from left to right, addresses upwards; each block is a buffer."
      "<i class='fixed' style='background:#9aa7b8'></i>parameters, constants, outputs"
      "<i style='background:#7fb2e5'></i>kept<i style='background:#f0a35e'></i>recomputed"
      "<i style='background:#b9a3d6'></i>workspace. Solid line: bytes in use. Dashed: without a "
      "limit.</p>\n";
  if (!frontier.empty()) {
    page += "<h2>Time against memory</h2>\n" +
            frontier_chart(frontier, plan.limit_bytes, plan.predicted_seconds, kWidth);
  }
  page += "<h2>Live at the peak";
  if (view.peak_step >= 0) {
    const auto* instruction = plan.steps[static_cast<std::size_t>(view.peak_step)].instruction;
    page += ": step " + std::to_string(view.peak_step);
    if (instruction != nullptr) page += ", " + escape_html(instruction->name());
  }
  page +=
      "</h2>\n<table>\n<tr><th>value</th><th>shape</th><th>bytes</th><th>from</th><th>to</th></"
      "tr>\n";
  for (const int i : view.live_at_peak) {
    const PlanView::Value& value = view.values[static_cast<std::size_t>(i)];
    page +=
        row({value.name_at_peak, value.shape, std::to_string(value.buffer->bytes),
             std::to_string(value.buffer->first_step), std::to_string(value.buffer->last_step)});
  }
  page +=
      "</table>\n<h2>Steps</h2>\n<table>\n<tr><th>step</th><th>kind</th><th>instruction</th>"
      "<th>operation</th><th>shape</th><th>bytes in use</th></tr>\n";
  for (std::size_t i = 0; i < plan.steps.size() && i < kMostRows; ++i) {
    const planner::Step& step = plan.steps[i];
    const ir::Instruction* instruction = step.instruction;
    page += row({std::to_string(i), std::string(to_string(step.kind)),
                 instruction ? instruction->name() : "",
                 instruction ? std::string(ir::to_string(instruction->opcode())) : "",
                 instruction ? instruction->shape().to_string() : "",
                 std::to_string(view.live_bytes[i])});
  }
  page += "</table>\n";
  if (plan.steps.size() > kMostRows) {
    page += "<p>" + std::to_string(plan.steps.size() - kMostRows) + " more steps.</p>\n";
  }
  return page + "</html>\n";
}

}  // namespace plimsoll::tools
