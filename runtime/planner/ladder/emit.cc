// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/ladder/emit.h"

#include <algorithm>

#include "runtime/base/alignment.h"
#include "runtime/planner/ladder/lend_results.h"
#include "runtime/planner/pack/pack.h"
#include "runtime/planner/plan_summary.h"
#include "runtime/planner/problem/timeline.h"

namespace plimsoll::planner {
namespace {

// From executions to buffers. A value's copy gets a buffer where it is made: a fixed one (output,
// parameter), the dying input's where the op works in place, a new one in the arena else. Each
// buffer remembers the first and the last step that touch it; that is its life in the packing. A
// transfer touches both of its buffers until its wait: `touch` in add_wait.
class Emitter {
 public:
  Emitter(const Problem& problem, std::span<const OpId> schedule)
      : problem_(problem), schedule_(schedule), liveness_(find_liveness(problem, schedule)) {
    plan_.computation = problem.graph->computation;
    holder_.assign(problem.values.size(), BufferId());
    host_constant_.assign(problem.values.size(), BufferId());
    executed_.assign(problem.ops.size(), 0);
    transfer_step_.assign(problem.ops.size(), StepId());
    lends_results_ = may_lend_results(problem);
  }

  Plan run(std::int64_t enough, double pack_effort) {
    add_steps();
    plan_.predicted_seconds = predicted_seconds(problem_, schedule_);
    assign_addresses(enough, pack_effort);
    for (const MemorySpace tier : kTiers) {
      assign_tier(placement_on(tier), plan_.tier_bytes[tier]);
    }
    sum_up();
    return std::move(plan_);
  }

  std::int64_t live_bytes() {
    add_steps();
    const IdVector<StepId, std::int64_t> load = arena_load(plan_);
    return load.empty() ? 0 : *std::max_element(load.begin(), load.end());
  }

 private:
  // Steps, and buffers with their lives.
  void add_steps() {
    add_fixed_buffers();
    plan_.steps.reserve(schedule_.size());
    for (std::size_t t = 0; t < schedule_.size(); ++t) add_step(t);
    add_results();
    const StepId end(std::max<std::int64_t>(std::ssize(schedule_) - 1, 0));
    for (const BufferId id : plan_.buffers.ids()) {
      Buffer& b = buffer(id);
      b.first_step = std::max(b.first_step, StepId(0));
      b.last_step = std::min(b.last_step, end);
    }
    mark_pinned();
    if (lends_results_) lend_results(plan_, taken_over_);
  }

  const Value& value(ValueId v) const { return problem_.values[v]; }
  BufferId& holder(ValueId v) { return holder_[v]; }
  Buffer& buffer(BufferId b) { return plan_.buffers[b]; }

  BufferId add_buffer(Placement placement, int index, std::int64_t bytes,
                      const ir::Instruction* source, int leaf) {
    Buffer b;
    b.placement = placement;
    b.index = index;
    b.bytes = bytes;
    b.source = source;
    b.leaf = leaf;
    b.first_step = StepId();
    return plan_.buffers.push_back(b);
  }

  void touch(BufferId b, StepId step) {
    if (b < 0) return;
    Buffer& it = buffer(b);
    if (it.first_step < 0) it.first_step = step;
    it.last_step = std::max(it.last_step, step);
  }

  // Every parameter leaf and result leaf has its buffer; constants get theirs when first used.
  void add_fixed_buffers() {
    const Graph& graph = *problem_.graph;
    parameter_buffer_.assign(graph.parameters.size(), BufferId());
    for (std::size_t p = 0; p < graph.parameters.size(); ++p) {
      const ValueId v = graph.parameters[p];
      if (v < 0) continue;
      const Value& original = graph.values[v];
      const BufferId b = add_buffer(Placement::parameter, static_cast<int>(p), original.bytes,
                                    original.source, original.leaf);
      parameter_buffer_[p] = b;
      buffer(b).donated = graph.residency[p] == ParameterResidency::donated;
      if (graph.residency[p] == ParameterResidency::host) {
        buffer(b).host = true;
      } else {
        holder(v) = b;
      }
    }
    output_buffer_.assign(graph.results.size(), BufferId());
    for (std::size_t k = 0; k < problem_.results.size(); ++k) {
      const ValueId v = problem_.results[k];
      if (v < 0 || value(v).home != Home::output) continue;
      output_buffer_[k] = add_buffer(Placement::output, static_cast<int>(k), value(v).bytes,
                                     value(v).source, value(v).leaf);
      buffer(output_buffer_[k]).host = graph.is_on_host(k);
    }
  }

  BufferId read(ValueId v) {
    if (v < 0) return {};
    if (holder(v) < 0 && value(v).home == Home::constant) {
      holder(v) =
          add_buffer(Placement::constant, 0, value(v).bytes, value(v).source, value(v).leaf);
    }
    return holder(v);
  }

  // What an upload reads.
  BufferId in_host_memory(OpId op) {
    const Op& what = problem_.ops[op];
    if (what.instruction->opcode() != ir::Opcode::constant) return parameter_buffer_[at(what.leaf)];
    const ValueId v = problem_.outputs[op].front();
    BufferId& b = host_constant_[v];
    if (b < 0) {
      b = add_buffer(Placement::constant, 0, value(v).bytes, what.instruction, what.leaf);
      buffer(b).host = true;
    }
    return b;
  }

  // The end of a transfer: both its buffers are held until here. A value that was swapped in is
  // read from the buffer it came to.
  void add_wait(StepId now, OpId op) {
    const Op& what = problem_.ops[op];
    Step step;
    step.kind = StepKind::swap_wait;
    step.instruction = what.instruction;
    step.leaf = what.leaf;
    step.transfer = transfer_step_[what.transfer];
    const Step& transfer = plan_.steps[step.transfer];
    touch(transfer.inputs.front(), now);
    touch(transfer.outputs.front(), now);
    for (const ValueId v : problem_.outputs[op]) {
      holder(v) = transfer.outputs.front();
      touch(holder(v), last_use(now));
    }
    plan_.steps.push_back(std::move(step));
  }

  // The last step that reads the only output of step `now`.
  //
  // Lives are steps of the schedule, but bytes on their way live longer than their reads: a swap's
  // arena buffer until its wait (add_wait touches it again), and what comes back from the start of
  // the transfer on and not from its first read.
  StepId last_use(StepId now) const {
    const auto slot = liveness_.first_output[now.index()];
    return StepId(liveness_.last_use[at(slot)]);
  }

  void add_step(std::size_t t) {
    const StepId now(t);
    const OpId op = schedule_[t];
    const Op& what = problem_.ops[op];
    if (what.kind == StepKind::swap_wait) {
      add_wait(now, op);
      return;
    }
    if (what.engine >= 0) transfer_step_[op] = now;
    Step step;
    step.kind = what.kind;
    if (what.kind == StepKind::compute && executed_[op]) {
      step.kind = StepKind::recompute;
    }
    step.instruction = what.instruction;
    if (what.codec.kind != CodecKind::none || what.engine >= 0) step.leaf = what.leaf;
    step.codec = what.codec;
    step.synchronous = what.synchronous;
    if (what.kind == StepKind::upload) step.inputs.push_back(in_host_memory(op));
    for (const ValueId v : problem_.inputs[op]) step.inputs.push_back(read(v));
    const std::span<const char> dies(liveness_.dies.data() + liveness_.first_read[t],
                                     at(liveness_.first_read[t + 1] - liveness_.first_read[t]));
    match_in_place(problem_, op, dies, taken_);
    if (lends_results_) note_taken_over(now, op, dies);
    std::int32_t slot = liveness_.first_output[t];
    const bool is_loop = what.kind == StepKind::compute && what.instruction != nullptr &&
                         what.instruction->opcode() == ir::Opcode::while_;
    for (const ValueId v : problem_.outputs[op]) {
      BufferId b;
      if (v >= 0) {
        b = place_output(v);
        touch(b, now);
        touch(b, StepId(liveness_.last_use[at(slot)]));
        outputs_.emplace_back(v, b);
      }
      // What a loop does not change stays where it is read.
      if (v < 0 && is_loop) b = step.inputs[step.outputs.size()];
      step.outputs.push_back(b);
      ++slot;
    }
    for (const BufferId b : step.inputs) touch(b, now);
    for (const auto& [v, b] : outputs_) holder(v) = b;
    outputs_.clear();
    if (what.coding >= 0) {
      step.coding = problem_.codings[at(what.coding)];
    }
    std::int64_t workspace = what.workspace;
    if (const SlicedLoop* sliced = problem_.sliced_loop(op)) {
      workspace -= sliced->window_bytes;
      step.sliced = sliced->states;
      for (SlicedState& state : step.sliced) {
        state.window =
            add_buffer(Placement::arena, 0, state.window_bytes(), what.instruction, state.leaf);
        touch(state.window, now);
      }
    }
    if (workspace > 0) {
      step.workspace = add_buffer(Placement::arena, 0, workspace, what.instruction, 0);
      touch(step.workspace, now);
    }
    if (what.variants >= 0) {
      const auto& row = problem_.graph->variants[at(what.variants)];
      const int choice = problem_.variant[op];
      step.callees = row[at(choice)].callees;
    }
    count(step, op);
    executed_[op] = 1;
    plan_.steps.push_back(std::move(step));
  }

  // What dies here and may be written over by a result that has a buffer of its own.
  void note_taken_over(StepId now, OpId op, std::span<const char> dies) {
    const auto reads = problem_.reads[op];
    const std::size_t before = taken_over_.size();
    for (const Reuse& r : problem_.reuse[op]) {
      if (!problem_.in_arena(r.input) || value(r.output).home != Home::output) continue;
      const auto it = std::find(reads.begin(), reads.end(), r.input);
      if (it == reads.end() || !dies[at(it - reads.begin())]) continue;
      const TakenOver made{holder(r.input), output_buffer_[at(value(r.output).index)], now};
      const auto uses = [&](const Reuse& t) { return t.input == r.input; };
      const auto known = [&](const TakenOver& t) {
        return t.value == made.value || t.result == made.result;
      };
      if (std::any_of(taken_.begin(), taken_.end(), uses) ||
          std::any_of(taken_over_.begin() + static_cast<std::ptrdiff_t>(before), taken_over_.end(),
                      known)) {
        continue;
      }
      taken_over_.push_back(made);
    }
  }

  BufferId place_output(ValueId v) {
    const Value& made = value(v);
    switch (made.home) {
      case Home::output:
        return output_buffer_[at(made.index)];
      case Home::parameter:
        return parameter_buffer_[at(made.index)];
      default:
        break;
    }
    if (is_tier(made.home)) return add_buffer(made.home, 0, made.bytes, made.source, made.leaf);
    for (const Reuse& r : taken_) {
      if (r.output == v) return holder(r.input);
    }
    return add_buffer(Placement::arena, 0, made.bytes, made.source, made.leaf);
  }

  void count(const Step& step, OpId op) {
    plan_.counts.fused_encode += static_cast<std::int64_t>(step.coding.outputs.size());
    plan_.counts.fused_decode += static_cast<std::int64_t>(step.coding.inputs.size());
    switch (step.kind) {
      case StepKind::compute:
        ++plan_.counts.compute;
        break;
      case StepKind::recompute:
        ++plan_.counts.recompute;
        break;
      case StepKind::encode:
        ++plan_.counts.encode;
        if (!step.codec.lossless()) ++plan_.counts.lossy;
        break;
      case StepKind::decode:
        ++plan_.counts.decode;
        break;
      case StepKind::swap_out:
        ++plan_.counts.swap_out;
        break;
      case StepKind::swap_in:
        ++plan_.counts.swap_in;
        break;
      case StepKind::upload:
        ++plan_.counts.upload;
        return;
      case StepKind::collective_start:
      case StepKind::collective_done:
        ++plan_.counts.collective;
        break;
      default:
        break;
    }
    if (executed_[op] && step.codec.kind == CodecKind::none && step.kind != StepKind::swap_in) {
      for (const BufferId b : step.outputs) {
        if (b >= 0) plan_.recomputed_bytes += buffer(b).bytes;
      }
    }
    for (const SlicedState& state : step.sliced) {
      ++(state.writes ? plan_.counts.swap_out : plan_.counts.swap_in);
    }
    for (const auto& callee : step.callees) {
      plan_.counts.compute += callee->counts.compute;
      plan_.counts.recompute += callee->counts.recompute;
      plan_.counts.collective += callee->counts.collective;
      plan_.counts.encode += callee->counts.encode;
      plan_.counts.decode += callee->counts.decode;
      plan_.counts.fused_encode += callee->counts.fused_encode;
      plan_.counts.fused_decode += callee->counts.fused_decode;
      plan_.counts.lossy += callee->counts.lossy;
      plan_.counts.swap_out += callee->counts.swap_out;
      plan_.counts.swap_in += callee->counts.swap_in;
      plan_.counts.upload += callee->counts.upload;
      plan_.recomputed_bytes += callee->recomputed_bytes;
    }
  }

  void add_results() {
    for (const ValueId v : problem_.results) plan_.results.push_back(read(v));
  }

  void assign_addresses(std::int64_t enough, double effort) {
    std::vector<Lifetime> lifetimes;
    std::vector<BufferId> ids;
    for (const BufferId id : plan_.buffers.ids()) {
      const Buffer& b = buffer(id);
      if (b.placement != Placement::arena) continue;
      lifetimes.push_back({b.first_step.value(), b.last_step.value() + 1, b.bytes});
      ids.push_back(id);
    }
    PackOptions how;
    how.alignment = kBufferAlignment;
    how.enough = enough;
    how.effort = effort;
    const Packing packing = pack(lifetimes, how);
    for (std::size_t i = 0; i < ids.size(); ++i) buffer(ids[i]).offset = packing.offsets[i];
    hold_operands_of_collectives(lifetimes, ids, packing.height, how);
    // A workspace at the top may have any size; whoever allocates the arena gets whole blocks.
    plan_.arena_bytes = aligned_bytes(packing.height);
    plan_.live_bytes = packing.load;
  }

  // The first step behind `step` that touches what it makes.
  StepId first_use(StepId step) const {
    const auto& outputs = plan_.steps[step].outputs;
    StepId next = step + 1;
    for (; next < plan_.steps.end_id(); ++next) {
      const Step& later = plan_.steps[next];
      const auto touches = [&](const auto& list) {
        return std::find_first_of(list.begin(), list.end(), outputs.begin(), outputs.end(),
                                  [](BufferId a, BufferId b) { return a == b && b >= 0; }) !=
               list.end();
      };
      if (touches(later.inputs) || touches(later.outputs)) break;
    }
    return next;
  }

  // A collective goes on until its result is used, if its operands' bytes are not written before
  // (executor/collectives_beside.h): they are not used again sooner, where the arena stays as small
  // as it is. Tried for as long as that, then for half as long, and so on.
  void hold_operands_of_collectives(const std::vector<Lifetime>& lifetimes,
                                    const std::vector<BufferId>& ids, std::int64_t height,
                                    PackOptions how) {
    std::vector<StepId> meetings;
    for (const StepId t : plan_.steps.ids()) {
      const Step& step = plan_.steps[t];
      if (step.instruction == nullptr || step.kind == StepKind::recompute) continue;
      const ir::OpClass op_class = ir::op_info(step.instruction->opcode()).op_class;
      const bool starts = step.kind == StepKind::collective_start ||
                          (step.kind == StepKind::compute && op_class == ir::OpClass::collective);
      if (starts) meetings.push_back(t);
    }
    if (meetings.empty()) return;
    std::vector<std::int64_t> place(plan_.buffers.size(), -1);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place[ids[i].index()] = static_cast<std::int64_t>(i);
    }
    std::vector<std::int64_t> uses;
    for (const StepId t : meetings) uses.push_back(first_use(t).value());
    how.enough = std::max(how.enough, height);
    how.target = height;
    for (int part = 1; part <= 4; part *= 2) {
      std::vector<Lifetime> held = lifetimes;
      bool changed = false;
      for (std::size_t m = 0; m < meetings.size(); ++m) {
        const std::int64_t now = meetings[m].value();
        const std::int64_t until = now + (uses[m] - now) / part;
        const Step& step = plan_.steps[meetings[m]];
        const auto hold = [&](BufferId id) {
          if (id < 0 || place[id.index()] < 0) return;
          std::int64_t& upper = held[at(place[id.index()])].upper;
          changed = changed || until > upper;
          upper = std::max(upper, until);
        };
        for (const BufferId id : step.inputs) hold(id);
        hold(step.workspace);
      }
      if (!changed) return;
      const Packing packing = pack(held, how);
      if (packing.height > height) continue;
      for (std::size_t i = 0; i < ids.size(); ++i) buffer(ids[i]).offset = packing.offsets[i];
      return;
    }
  }

  // The blocks of the other tiers are packed as the arena is.
  void assign_tier(Placement tier, std::int64_t& bytes) {
    std::vector<Lifetime> lifetimes;
    std::vector<BufferId> ids;
    for (const BufferId id : plan_.buffers.ids()) {
      const Buffer& b = buffer(id);
      if (b.placement != tier) continue;
      lifetimes.push_back({b.first_step.value(), b.last_step.value() + 1, b.bytes});
      ids.push_back(id);
    }
    if (ids.empty()) return;
    const Packing packing = pack(lifetimes, kBufferAlignment, 0, 1);
    for (std::size_t i = 0; i < ids.size(); ++i) buffer(ids[i]).offset = packing.offsets[i];
    bytes = packing.height;
  }

  // The arena's side of transfers (the other side is pinned as a whole), and what goes to other
  // devices.
  void mark_pinned() {
    for (const Step& step : plan_.steps) {
      if (step.kind == StepKind::swap_out) buffer(step.inputs.front()).pinned = true;
      if (step.kind == StepKind::swap_in) buffer(step.outputs.front()).pinned = true;
      for (const SlicedState& state : step.sliced) buffer(state.window).pinned = true;
    }
    for (const Step& step : plan_.steps) {
      if (step.instruction == nullptr || step.kind == StepKind::swap_wait) continue;
      const ir::OpClass op_class = ir::op_info(step.instruction->opcode()).op_class;
      const bool runs = step.kind == StepKind::compute || step.kind == StepKind::recompute ||
                        step.kind == StepKind::collective_start ||
                        step.kind == StepKind::collective_done;
      const bool sends = op_class == ir::OpClass::collective || op_class == ir::OpClass::async;
      if (!runs || !sends || is_local(step.instruction->opcode())) continue;
      for (const auto* list : {&step.inputs, &step.outputs}) {
        for (const BufferId b : *list) {
          if (b >= 0) buffer(b).pinned = true;
        }
      }
    }
  }

  // Asynchronous, yet on this device alone.
  static bool is_local(ir::Opcode opcode) {
    switch (opcode) {
      case ir::Opcode::copy_start:
      case ir::Opcode::copy_done:
      case ir::Opcode::async_start:
      case ir::Opcode::async_update:
      case ir::Opcode::async_done:
        return true;
      default:
        return false;
    }
  }

  // Constants that never leave are the caller's to add: they are counted once per module.
  void sum_up() {
    plan_.by_cause.parameters = problem_.parameter_bytes;
    plan_.by_cause.constants = problem_.constant_bytes;
    plan_.by_cause.outputs = problem_.output_bytes;
    IdVector<BufferId, char> is_workspace(plan_.buffers.size(), 0);
    for (const Step& step : plan_.steps) {
      if (step.workspace >= 0) is_workspace[step.workspace] = 1;
      for (const SlicedState& state : step.sliced) is_workspace[state.window] = 1;
    }
    const IdVector<StepId, std::int64_t> load = arena_load(plan_);
    const StepId peak(std::max_element(load.begin(), load.end()) - load.begin());
    plan_.by_cause.workspaces = 0;
    for (const BufferId id : plan_.buffers.ids()) {
      const Buffer& b = buffer(id);
      const bool counts = is_workspace[id] != 0 && b.placement == Placement::arena;
      if (counts && b.first_step == peak) plan_.by_cause.workspaces += b.bytes;
    }
    plan_.by_cause.temporaries = plan_.arena_bytes - plan_.by_cause.workspaces;
    const std::int64_t fixed =
        problem_.parameter_bytes + problem_.output_bytes + problem_.constant_bytes;
    plan_.peak_bytes = fixed + plan_.arena_bytes;
    plan_.live_bytes += fixed;
  }

  const Problem& problem_;
  const std::span<const OpId> schedule_;
  const Liveness liveness_;
  Plan plan_;
  IdVector<ValueId, BufferId> holder_;         // per value, the buffer of its latest copy
  IdVector<ValueId, BufferId> host_constant_;  // per constant that is uploaded
  std::vector<BufferId> parameter_buffer_, output_buffer_;
  IdVector<OpId, char> executed_;
  IdVector<OpId, StepId> transfer_step_;  // per op, the step of its latest transfer
  std::vector<Reuse> taken_;
  std::vector<std::pair<ValueId, BufferId>> outputs_;
  bool lends_results_ = false;
  std::vector<TakenOver> taken_over_;
};

}  // namespace

Plan emit_plan(const Problem& problem, std::span<const OpId> schedule, std::int64_t enough,
               double pack_effort) {
  return Emitter(problem, schedule).run(enough, pack_effort);
}

std::int64_t arena_live_bytes(const Problem& problem, std::span<const OpId> schedule) {
  if (!may_lend_results(problem)) return evaluate(problem, schedule).arena_peak;
  return Emitter(problem, schedule).live_bytes();
}

}  // namespace plimsoll::planner
