// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/check/check_sliced.h"

#include <fmt/core.h>
#include <algorithm>
#include <string>

#include "runtime/base/index.h"
#include "runtime/ir/dataflow/scan_residuals.h"

namespace plimsoll::planner {
namespace {

bool is_state(const Plan& plan, BufferId id, int leaf) {
  if (id < 0 || id >= plan.buffers.end_id()) return false;
  const Buffer& buffer = plan.buffers[id];
  return buffer.placement == Placement::parameter && buffer.index == leaf;
}

bool touches(const Plan& plan, const std::vector<BufferId>& list, int leaf) {
  return std::any_of(list.begin(), list.end(),
                     [&](BufferId id) { return is_state(plan, id, leaf); });
}

bool body_keeps_to(const Plan& body, int leaf, const ir::ResidualAccess& access) {
  for (const Step& step : body.steps) {
    const bool writes = touches(body, step.outputs, leaf);
    if (step.kind == StepKind::free || (!writes && !touches(body, step.inputs, leaf))) continue;
    const bool runs =
        step.kind == StepKind::compute || (step.kind == StepKind::recompute && !access.writes);
    const bool known =
        std::find(access.by.begin(), access.by.end(), step.instruction) != access.by.end();
    if (!runs || !known || writes != access.writes) return false;
  }
  return at(leaf) < body.results.size() && is_state(body, body.results[at(leaf)], leaf);
}

}  // namespace

Status check_residuals(const Step& step) {
  for (std::size_t i = 0; i < step.sliced.size(); ++i) {
    const SlicedState& state = step.sliced[i];
    const std::string name = fmt::format("leaf {}", state.leaf);
    if (step.instruction == nullptr || step.instruction->opcode() != ir::Opcode::while_ ||
        step.callees.size() != 2 || state.leaf < 0 || at(state.leaf) >= step.outputs.size() ||
        step.outputs.size() != step.inputs.size()) {
      return internal_error(name + " is not of a loop's state");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (step.sliced[k].leaf == state.leaf) return internal_error(name + " is sliced twice");
    }
    const auto access = find_residual_access(*step.instruction, state.leaf);
    if (!access || access->writes != state.writes || access->slices != state.slices ||
        access->slice_bytes != state.slice_bytes || access->rounds != state.rounds ||
        access->first != state.first || access->step != state.step) {
      return internal_error(name + " is not used as the residual that the step says");
    }
    for (const Step& test : step.callees[0]->steps) {
      if (touches(*step.callees[0], test.inputs, state.leaf)) {
        return internal_error("the condition reads the residual " + name);
      }
    }
    if (!body_keeps_to(*step.callees[1], state.leaf, *access)) {
      return internal_error("the body uses " + name + " otherwise than slice by slice");
    }
  }
  return ok_status();
}

}  // namespace plimsoll::planner
