// SPDX-License-Identifier: Apache-2.0
#include "tools/plan/plan_view.h"

#include <fmt/core.h>
#include <algorithm>

#include "runtime/ir/module.h"
#include "runtime/planner/plan_summary.h"

namespace plimsoll::tools {
namespace {

using planner::BufferId;
using planner::StepId;

constexpr std::size_t kMostNames = 4;

}  // namespace

PlanView view_plan(const planner::Plan& plan) {
  PlanView view;
  view.fixed_bytes = plan.peak_bytes - plan.arena_bytes;
  for (const planner::Buffer& buffer : plan.buffers) {
    PlanView::Value value;
    value.buffer = &buffer;
    if (buffer.source != nullptr) {
      value.name = buffer.source->name();
      const auto leaves = ir::leaves(buffer.source->shape());
      const auto leaf = at(std::max(buffer.leaf, 0));
      if (leaves.size() > 1) value.name += fmt::format("#{}", leaf);
      if (leaf < leaves.size()) value.shape = leaves[leaf]->to_string();
    }
    view.values.push_back(std::move(value));
  }
  const IdVector<StepId, std::int64_t> load = planner::arena_load(plan);
  for (const StepId t : plan.steps.ids()) {
    const planner::Step& step = plan.steps[t];
    const std::int64_t live = view.fixed_bytes + load[t];
    view.live_bytes.push_back(live);
    if (view.peak_step < 0 || live > view.live_bytes[view.peak_step]) view.peak_step = t;
    for (const BufferId id : step.outputs) {
      if (id < 0 || step.instruction == nullptr) continue;
      PlanView::Value& value = view.values[id];
      const ir::Instruction* first = plan.buffers[id].source;
      const std::string& name = step.instruction->name();
      const bool known = step.instruction == first || value.later_names.size() == kMostNames ||
                         std::find(value.later_names.begin(), value.later_names.end(), name) !=
                             value.later_names.end();
      if (!known) value.later_names.push_back(name);
    }
    if (step.workspace >= 0) {
      auto& workspace = view.values[step.workspace];
      workspace.workspace = true;
      workspace.shape.clear();
      if (step.instruction != nullptr) workspace.name = step.instruction->name() + " workspace";
    }
    for (const BufferId id : step.outputs) {
      if (id < 0) continue;
      view.values[id].recomputed |= step.kind == planner::StepKind::recompute;
      view.values[id].uploaded |= step.kind == planner::StepKind::upload;
    }
  }
  for (PlanView::Value& value : view.values) value.name_at_peak = value.name;
  for (StepId t(0); t <= view.peak_step; ++t) {
    const planner::Step& step = plan.steps[t];
    if (step.instruction == nullptr) continue;
    const std::size_t results = step.outputs.size() - step.coding.outputs.size();
    for (std::size_t k = 0; k < step.outputs.size(); ++k) {
      if (step.outputs[k] < 0) continue;
      const std::size_t leaf = k < results ? k : at(step.coding.outputs[k - results].output);
      view.values[step.outputs[k]].name_at_peak = step.instruction->name() +
                                                  (results > 1 ? fmt::format("#{}", leaf) : "") +
                                                  (k < results ? "" : " encoded");
    }
  }
  for (const BufferId id : plan.buffers.ids()) {
    const planner::Buffer& buffer = plan.buffers[id];
    // What is lent of a result's bytes is in the result's.
    if (buffer.placement == planner::Placement::lent) continue;
    const bool live_there =
        buffer.placement != planner::Placement::arena ||
        (buffer.first_step <= view.peak_step && view.peak_step <= buffer.last_step);
    if (live_there && buffer.bytes > 0 && !buffer.host) view.live_at_peak.push_back(id);
  }
  std::stable_sort(view.live_at_peak.begin(), view.live_at_peak.end(), [&](BufferId a, BufferId b) {
    return plan.buffers[a].bytes > plan.buffers[b].bytes;
  });
  return view;
}

std::vector<ValueLife> lives_of(const planner::Plan& plan, const ir::Instruction& instruction) {
  std::vector<ValueLife> lives;
  const auto follow = [&](BufferId id, int leaf, StepId first, bool recomputed) {
    bool overwritten = false;
    ValueLife life{leaf, plan.buffers[id].bytes, first, first, recomputed};
    for (StepId t = first + 1; t < plan.steps.end_id(); ++t) {
      const planner::Step& step = plan.steps[t];
      if (step.kind != planner::StepKind::free &&
          std::find(step.inputs.begin(), step.inputs.end(), id) != step.inputs.end()) {
        life.last_step = t;
      }
      if (std::find(step.outputs.begin(), step.outputs.end(), id) != step.outputs.end() ||
          step.workspace == id) {
        overwritten = true;
        break;
      }
    }
    if (!overwritten &&
        std::find(plan.results.begin(), plan.results.end(), id) != plan.results.end()) {
      life.last_step = plan.steps.end_id() - 1;
    }
    lives.push_back(life);
  };
  for (const StepId t : plan.steps.ids()) {
    const planner::Step& step = plan.steps[t];
    const bool writes = step.kind == planner::StepKind::compute ||
                        step.kind == planner::StepKind::recompute ||
                        step.kind == planner::StepKind::upload ||
                        step.kind == planner::StepKind::collective_start ||
                        step.kind == planner::StepKind::collective_done;
    if (step.instruction != &instruction || !writes) continue;
    const std::size_t results = step.outputs.size() - step.coding.outputs.size();
    for (std::size_t leaf = 0; leaf < results; ++leaf) {
      if (step.outputs[leaf] < 0) continue;
      follow(step.outputs[leaf], static_cast<int>(leaf), t,
             step.kind == planner::StepKind::recompute);
    }
  }
  if (!lives.empty()) return lives;
  // What else has no step is there from the start, but for what lies in host memory.
  for (const planner::Buffer& buffer : plan.buffers) {
    if (buffer.source != &instruction || buffer.placement == planner::Placement::arena ||
        buffer.placement == planner::Placement::lent || buffer.host) {
      continue;
    }
    lives.push_back({buffer.leaf, buffer.bytes, StepId(0), buffer.last_step, false});
  }
  return lives;
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
    case planner::StepKind::swap_wait:
      return "swap wait";
    case planner::StepKind::collective_start:
      return "collective start";
    case planner::StepKind::collective_done:
      return "collective done";
    case planner::StepKind::copy:
      return "copy";
    case planner::StepKind::upload:
      return "upload";
    case planner::StepKind::download:
      return "download";
    case planner::StepKind::free:
      return "free";
  }
  return "";
}

}  // namespace plimsoll::tools
