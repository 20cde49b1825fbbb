// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_view.h"

#include <algorithm>
#include <numeric>

#include "runtime/ir/module.h"

namespace plimsoll::tools {

PlanView view_plan(const planner::Plan& plan) {
  PlanView view;
  view.fixed_bytes = plan.peak_bytes - plan.arena_bytes;
  std::vector<std::int64_t> change(plan.steps.size() + 1, 0);
  for (const planner::Buffer& buffer : plan.buffers) {
    PlanView::Value value;
    value.buffer = &buffer;
    if (buffer.source != nullptr) {
      value.name = buffer.source->name();
      const auto leaves = ir::leaves(buffer.source->shape());
      const auto leaf = static_cast<std::size_t>(std::max(buffer.leaf, 0));
      if (leaves.size() > 1) value.name += "#" + std::to_string(leaf);
      if (leaf < leaves.size()) value.shape = leaves[leaf]->to_string();
    }
    view.values.push_back(std::move(value));
    if (buffer.placement != planner::Placement::arena || plan.steps.empty()) continue;
    change[static_cast<std::size_t>(buffer.first_step)] += buffer.bytes;
    change[static_cast<std::size_t>(buffer.last_step) + 1] -= buffer.bytes;
  }
  std::int64_t live = view.fixed_bytes;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const planner::Step& step = plan.steps[i];
    live += change[i];
    view.live_bytes.push_back(live);
    if (view.peak_step < 0 || live > view.live_bytes[static_cast<std::size_t>(view.peak_step)]) {
      view.peak_step = static_cast<std::int32_t>(i);
    }
    if (step.workspace >= 0) {
      auto& workspace = view.values[static_cast<std::size_t>(step.workspace)];
      workspace.workspace = true;
      if (step.instruction != nullptr) workspace.name = step.instruction->name() + " workspace";
    }
    if (step.kind != planner::StepKind::recompute) continue;
    for (const planner::BufferId id : step.outputs) {
      if (id >= 0) view.values[static_cast<std::size_t>(id)].recomputed = true;
    }
  }
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const planner::Buffer& buffer = plan.buffers[i];
    const bool live_there =
        buffer.placement != planner::Placement::arena ||
        (buffer.first_step <= view.peak_step && view.peak_step <= buffer.last_step);
    if (live_there && buffer.bytes > 0 && !buffer.host) {
      view.live_at_peak.push_back(static_cast<int>(i));
    }
  }
  std::stable_sort(view.live_at_peak.begin(), view.live_at_peak.end(), [&](int a, int b) {
    return plan.buffers[static_cast<std::size_t>(a)].bytes >
           plan.buffers[static_cast<std::size_t>(b)].bytes;
  });
  return view;
}

std::string_view to_string(planner::StepKind kind) {
  switch (kind) {
    case planner::StepKind::compute:
      return "compute";
    case planner::StepKind::recompute:
      return "recompute";
    case planner::StepKind::encode:
      return "encode";
    case planner::StepKind::decode:
      return "decode";
    case planner::StepKind::swap_out:
      return "swap out";
    case planner::StepKind::swap_in:
      return "swap in";
    case planner::StepKind::collective_start:
      return "collective start";
    case planner::StepKind::collective_done:
      return "collective done";
    case planner::StepKind::copy:
      return "copy";
    case planner::StepKind::upload:
      return "upload";
    case planner::StepKind::free:
      return "free";
  }
  return "";
}

}  // namespace plimsoll::tools
