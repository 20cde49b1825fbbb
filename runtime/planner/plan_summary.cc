// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/plan_summary.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace plimsoll::planner {
namespace {

// What a buffer was made for, and for workspaces by which step.
struct Purpose {
  enum class Kind : std::uint8_t { value, workspace, encoded, staging } kind = Kind::value;
  const Step* step = nullptr;
};

IdVector<BufferId, Purpose> purposes(const Plan& plan) {
  IdVector<BufferId, Purpose> list(plan.buffers.size());
  const auto mark = [&](BufferId id, Purpose::Kind kind, const Step& step) {
    if (id >= 0) list[id] = {kind, &step};
  };
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::encode) mark(step.outputs.front(), Purpose::Kind::encoded, step);
    for (std::size_t i = 0; i < step.coding.outputs.size(); ++i) {
      mark(step.outputs[step.outputs.size() - 1 - i], Purpose::Kind::encoded, step);
    }
    if (step.kind == StepKind::upload) mark(step.outputs.front(), Purpose::Kind::staging, step);
    mark(step.workspace, Purpose::Kind::workspace, step);
    for (const SlicedState& state : step.sliced) mark(state.window, Purpose::Kind::staging, step);
  }
  return list;
}

}  // namespace

IdVector<StepId, std::int64_t> arena_load(const Plan& plan) {
  IdVector<StepId, std::int64_t> load(plan.steps.size(), 0);
  if (plan.steps.empty()) return load;
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.placement != Placement::arena) continue;
    load[buffer.first_step] += buffer.bytes;
    if (buffer.last_step + 1 < plan.steps.end_id()) load[buffer.last_step + 1] -= buffer.bytes;
  }
  std::partial_sum(load.begin(), load.end(), load.begin());
  return load;
}

ArenaBytes arena_at_peak(const Plan& plan) {
  ArenaBytes sum;
  if (plan.steps.empty()) return {plan.arena_bytes, 0, 0, 0};
  const IdVector<BufferId, Purpose> list = purposes(plan);
  const IdVector<StepId, std::int64_t> load = arena_load(plan);
  const StepId at(std::max_element(load.begin(), load.end()) - load.begin());
  for (const BufferId id : list.ids()) {
    const Buffer& buffer = plan.buffers[id];
    if (buffer.placement != Placement::arena || buffer.first_step > at || buffer.last_step < at) {
      continue;
    }
    switch (list[id].kind) {
      case Purpose::Kind::value:
        break;
      case Purpose::Kind::encoded:
        sum.encoded += buffer.bytes;
        break;
      case Purpose::Kind::staging:
        sum.staging += buffer.bytes;
        break;
      case Purpose::Kind::workspace: {
        const auto& callees = list[id].step->callees;
        const auto largest = std::max_element(
            callees.begin(), callees.end(),
            [](const auto& a, const auto& b) { return a->arena_bytes < b->arena_bytes; });
        if (largest == callees.end()) {
          sum.workspaces += buffer.bytes;
          break;
        }
        const ArenaBytes inside = arena_at_peak(**largest);
        sum.workspaces += inside.workspaces;
        sum.encoded += inside.encoded;
        sum.staging += inside.staging;
        break;
      }
    }
  }
  sum.activations = plan.arena_bytes - sum.workspaces - sum.encoded - sum.staging;
  return sum;
}

namespace {

void count(const Plan& plan, std::map<CodecKind, std::int64_t>& counts) {
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::encode && !step.codec.lossless()) ++counts[step.codec.kind];
    for (const auto& callee : step.callees) count(*callee, counts);
  }
}

}  // namespace

std::int64_t encoded_bytes(const Plan& plan) {
  std::int64_t sum = 0;
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::encode) sum += plan.buffers[step.outputs.front()].bytes;
    for (std::size_t i = 0; i < step.coding.outputs.size(); ++i) {
      sum += plan.buffers[step.outputs[step.outputs.size() - 1 - i]].bytes;
    }
    for (const auto& callee : step.callees) sum += encoded_bytes(*callee);
  }
  return sum;
}

HostBytes bytes_in_host_memory(const Plan& plan) {
  HostBytes sum;
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.host) continue;
    if (buffer.placement == Placement::parameter) sum.parameters += buffer.bytes;
    if (buffer.placement == Placement::output) sum.results += buffer.bytes;
  }
  return sum;
}

std::vector<LossyUse> lossy_uses(const Plan& plan) {
  std::map<CodecKind, std::int64_t> counts;
  if (plan.counts.lossy > 0) count(plan, counts);
  std::vector<LossyUse> uses;
  for (const auto& [codec, encodes] : counts) uses.push_back({codec, encodes});
  return uses;
}

}  // namespace plimsoll::planner
