// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_report.h"

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/ir/module.h"
#include "tools/plan/plan_report_page.h"
#include "tools/plan/plan_view.h"

namespace plimsoll::tools {
namespace {

using planner::StepKind;

// More would make the page slow; the largest are drawn, the first are listed.
constexpr std::size_t kMostRectangles = 4000;
constexpr std::size_t kMostRows = 2000;

std::string name_of(const ir::Instruction* instruction) {
  return instruction == nullptr ? "" : instruction->name();
}

std::string all_names(const PlanView::Value& value) {
  std::string names = value.name;
  for (const std::string& name : value.later_names) names += ", " + name;
  return names;
}

Json buffers_json(const planner::Plan& plan, const PlanView& view) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    if (plan.buffers[i].placement == planner::Placement::arena) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  if (order.size() > kMostRectangles) order.resize(kMostRectangles);
  Json list = Json::array();
  for (const std::size_t i : order) {
    const planner::Buffer& buffer = plan.buffers[i];
    const PlanView::Value& value = view.values[i];
    list.push_back({{"name", all_names(value)},
                    {"shape", value.shape},
                    {"kind", value.workspace    ? "workspace"
                             : value.recomputed ? "recomputed"
                                                : "kept"},
                    {"bytes", buffer.bytes},
                    {"offset", buffer.offset},
                    {"first", buffer.first_step},
                    {"last", buffer.last_step}});
  }
  return list;
}

// The step at which the transfer that step `i` starts has ended.
std::size_t end_of(const planner::Plan& plan, std::size_t i) {
  for (std::size_t j = i + 1; j < plan.steps.size(); ++j) {
    const planner::Step& step = plan.steps[j];
    if (step.kind == StepKind::swap_wait && step.transfer == static_cast<std::int32_t>(i)) return j;
  }
  return i;
}

// The steps that move values or change their form.
Json moves_json(const planner::Plan& plan) {
  Json list = Json::array();
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const planner::Step& step = plan.steps[i];
    if (step.kind != StepKind::encode && step.kind != StepKind::decode &&
        step.kind != StepKind::swap_out && step.kind != StepKind::swap_in) {
      continue;
    }
    Json move = {{"kind", std::string(to_string(step.kind))},
                 {"name", name_of(step.instruction)},
                 {"first", i},
                 {"last", end_of(plan, i)}};
    if (step.codec.kind != planner::CodecKind::none) {
      move["codec"] = std::string(to_string(step.codec));
    }
    list.push_back(std::move(move));
  }
  return list;
}

// On all tiers together, per step.
std::vector<std::int64_t> bytes_elsewhere(const planner::Plan& plan) {
  std::vector<std::int64_t> change(plan.steps.size() + 1, 0);
  for (const planner::Buffer& buffer : plan.buffers) {
    if (!planner::is_tier(buffer.placement)) continue;
    change[static_cast<std::size_t>(buffer.first_step)] += buffer.bytes;
    change[static_cast<std::size_t>(buffer.last_step) + 1] -= buffer.bytes;
  }
  for (std::size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
  return change;
}

Json live_at_peak_json(const PlanView& view) {
  Json list = Json::array();
  for (const int i : view.live_at_peak) {
    const PlanView::Value& value = view.values[static_cast<std::size_t>(i)];
    list.push_back({{"name", value.name_at_peak},
                    {"shape", value.shape},
                    {"bytes", value.buffer->bytes},
                    {"first", value.buffer->first_step},
                    {"last", value.buffer->last_step}});
  }
  return list;
}

Json steps_json(const planner::Plan& plan) {
  Json list = Json::array();
  for (std::size_t i = 0; i < plan.steps.size() && i < kMostRows; ++i) {
    const ir::Instruction* instruction = plan.steps[i].instruction;
    list.push_back(
        {{"kind", std::string(to_string(plan.steps[i].kind))},
         {"name", name_of(instruction)},
         {"opcode", instruction ? std::string(ir::to_string(instruction->opcode())) : ""},
         {"shape", instruction ? instruction->shape().to_string() : ""}});
  }
  return list;
}

}  // namespace

std::string plan_report(const planner::Plan& plan, const planner::Plan& unlimited,
                        const planner::Floor& floor, const std::vector<FrontierPoint>& frontier,
                        std::string_view title) {
  const PlanView view = view_plan(plan);
  Json report = {{"title", std::string(title)},
                 {"plan", plan_json(plan, floor, unlimited.peak_bytes)},
                 {"fixed_bytes", view.fixed_bytes},
                 {"live_bytes", view.live_bytes},
                 {"unlimited_live_bytes", view_plan(unlimited).live_bytes},
                 {"bytes_elsewhere", bytes_elsewhere(plan)},
                 {"peak_step", view.peak_step},
                 {"buffers", buffers_json(plan, view)},
                 {"moves", moves_json(plan)},
                 {"frontier", frontier_json(frontier)},
                 {"live_at_peak", live_at_peak_json(view)},
                 {"steps", steps_json(plan)}};
  if (view.peak_step >= 0) {
    report["peak_name"] = name_of(plan.steps[static_cast<std::size_t>(view.peak_step)].instruction);
  }
  report["plan"].erase("planning_seconds");  // the page is the same for the same plan
  std::string data = report.dump(-1, ' ', false, Json::error_handler_t::replace);
  // Nothing in it may end the element that holds it.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;) {
    data.replace(at, 1, "\\u003c");
  }
  constexpr std::string_view kHolder = "id='report'>";
  std::string page(kPlanReportPage);
  return page.replace(page.find(kHolder) + kHolder.size(), 2, data);
}

}  // namespace plimsoll::tools
