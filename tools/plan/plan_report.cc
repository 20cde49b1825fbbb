// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_report.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/ir/module.h"
#include "tools/plan/plan_report_page.h"
#include "tools/plan/plan_view.h"

namespace plimsoll::tools {
namespace {

using planner::BufferId;
using planner::StepId;
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
  std::vector<BufferId> order;
  for (const BufferId id : plan.buffers.ids()) {
    if (plan.buffers[id].placement == planner::Placement::arena) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(), [&](BufferId a, BufferId b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  if (order.size() > kMostRectangles) order.resize(kMostRectangles);
  Json list = Json::array();
  for (const BufferId id : order) {
    const planner::Buffer& buffer = plan.buffers[id];
    const PlanView::Value& value = view.values[id];
    list.push_back({{"name", all_names(value)},
                    {"shape", value.shape},
                    {"kind", value.workspace    ? "workspace"
                             : value.recomputed ? "recomputed"
                             : value.uploaded   ? "streamed"
                                                : "kept"},
                    {"bytes", buffer.bytes},
                    {"offset", buffer.offset},
                    {"first", buffer.first_step.value()},
                    {"last", buffer.last_step.value()}});
  }
  return list;
}

// The step at which the transfer that `start` starts has ended.
StepId end_of(const planner::Plan& plan, StepId start) {
  for (StepId t = start + 1; t < plan.steps.end_id(); ++t) {
    const planner::Step& step = plan.steps[t];
    if (step.kind == StepKind::swap_wait && step.transfer == start) return t;
  }
  return start;
}

// The steps that move values or change their form.
Json moves_json(const planner::Plan& plan) {
  Json list = Json::array();
  for (const StepId t : plan.steps.ids()) {
    const planner::Step& step = plan.steps[t];
    if (step.kind != StepKind::encode && step.kind != StepKind::decode &&
        step.kind != StepKind::swap_out && step.kind != StepKind::swap_in) {
      continue;
    }
    Json move = {{"kind", std::string(to_string(step.kind))},
                 {"name", name_of(step.instruction)},
                 {"first", t.value()},
                 {"last", end_of(plan, t).value()}};
    if (step.codec.kind != planner::CodecKind::none) {
      move["codec"] = std::string(to_string(step.codec));
    }
    list.push_back(std::move(move));
  }
  return list;
}

// On all tiers together, per step.
std::vector<std::int64_t> bytes_elsewhere(const planner::Plan& plan) {
  IdVector<StepId, std::int64_t> change(plan.steps.size() + 1, 0);
  for (const planner::Buffer& buffer : plan.buffers) {
    if (!planner::is_tier(buffer.placement)) continue;
    change[buffer.first_step] += buffer.bytes;
    change[buffer.last_step + 1] -= buffer.bytes;
  }
  std::vector<std::int64_t> bytes(plan.steps.size());
  std::partial_sum(change.begin(), change.end() - 1, bytes.begin());
  return bytes;
}

Json live_at_peak_json(const PlanView& view) {
  Json list = Json::array();
  for (const BufferId id : view.live_at_peak) {
    const PlanView::Value& value = view.values[id];
    list.push_back({{"name", value.name_at_peak},
                    {"shape", value.shape},
                    {"bytes", value.buffer->bytes},
                    {"first", value.buffer->first_step.value()},
                    {"last", value.buffer->last_step.value()}});
  }
  return list;
}

Json steps_json(const planner::Plan& plan) {
  Json list = Json::array();
  for (const planner::Step& step : plan.steps) {
    if (list.size() == kMostRows) break;
    const ir::Instruction* instruction = step.instruction;
    list.push_back(
        {{"kind", std::string(to_string(step.kind))},
         {"name", name_of(instruction)},
         {"opcode", instruction ? std::string(ir::to_string(instruction->opcode())) : ""},
         {"shape", instruction ? instruction->shape().to_string() : ""}});
  }
  return list;
}

}  // namespace

std::string plan_report(const planner::Plan& plan, const planner::Plan& unlimited,
                        const FoundFloor& floor, const std::vector<FrontierPoint>& frontier,
                        std::string_view title) {
  const PlanView view = view_plan(plan);
  Json report = {{"title", std::string(title)},
                 {"plan", plan_json(plan, floor, unlimited)},
                 {"fixed_bytes", view.fixed_bytes},
                 {"live_bytes", view.live_bytes.items()},
                 {"unlimited_live_bytes", view_plan(unlimited).live_bytes.items()},
                 {"bytes_elsewhere", bytes_elsewhere(plan)},
                 {"peak_step", view.peak_step.value()},
                 {"buffers", buffers_json(plan, view)},
                 {"moves", moves_json(plan)},
                 {"frontier", frontier_json(frontier)},
                 {"live_at_peak", live_at_peak_json(view)},
                 {"steps", steps_json(plan)}};
  if (view.peak_step >= 0) {
    report["peak_name"] = name_of(plan.steps[view.peak_step].instruction);
  }
  // The page is the same for the same plan.
  for (const char* own : {"planning_seconds", "floor_seconds"}) report["plan"].erase(own);
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
