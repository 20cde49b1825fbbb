// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>

#include "runtime/ir/dataflow/views.h"
#include "runtime/planner/check/check_codecs.h"
#include "runtime/planner/check/check_sliced.h"
#include "runtime/planner/check/plan_checker.h"

// The checker runs the plan on names. For each buffer it knows the one thing that it holds: leaf 0
// of instruction `dot.3`, as it is or encoded by a codec; or nothing. A compute step must find in
// its inputs exactly the values that its instruction's operands are, and leaves its own in its
// outputs; a free, an overwrite or a transfer under way makes a buffer hold nothing. So a plan that
// passes computes what the program says, whatever the search that made it did: planner bugs show as
// errors here and not as wrong numbers there.
//
// What it shares with the planner is the smallest part possible: shapes, views and which operand a
// result may overwrite. It does not look at the Problem or at the Schedule at all.

namespace plimsoll::planner {

using ir::Instruction;
using ir::Opcode;

Status PlanChecker::compute(const Step& step, std::unordered_set<const Instruction*>& done) {
  if (step.instruction == nullptr) return fail("no instruction");
  const Instruction& instruction = *step.instruction;
  if (instruction.parent() != plan_.computation) return fail("instruction of another computation");
  if (is_view(instruction) || instruction.opcode() == Opcode::constant) {
    return fail("the instruction computes nothing");
  }
  const bool again = done.contains(&instruction);
  if (again && instruction.has_side_effect()) return fail("runs a side effect twice");
  if (again != (step.kind == StepKind::recompute)) return fail("wrong kind of step");
  done.insert(&instruction);
  if (!again) {
    for (const Instruction* before : instruction.control_predecessors()) {
      if (!is_view(*before) && before->opcode() != Opcode::constant && !done.contains(before)) {
        return fail("runs before its control predecessor '" + before->name() + "'");
      }
    }
  }
  std::size_t k = 0;
  for (const Instruction* operand : instruction.operands()) {
    const std::vector<const ir::Shape*> shapes = ir::leaves(operand->shape());
    const auto& wanted = leaves_of(*operand);
    for (std::size_t leaf = 0; leaf < shapes.size(); ++leaf, ++k) {
      if (k >= step.inputs.size()) return fail("too few inputs");
      const SlicedState* sliced = sliced_state(step, k);
      if (sliced != nullptr && sliced->writes) {
        if (step.inputs[k] >= 0)
          return fail("a residual that is written slice by slice has no input");
        continue;
      }
      if (shapes[leaf]->is_array() != (step.inputs[k] >= 0)) return fail("input kind mismatch");
      if (!shapes[leaf]->is_array()) continue;
      const Content& held = content(step.inputs[k]);
      if (buffer(step.inputs[k]).host) return fail("reads host memory");
      if (held.sliced != (sliced != nullptr)) return fail("a residual is read otherwise");
      const EncodedInput* const encoded = encoded_input(step, k);
      if (encoded != nullptr) {
        PLIMSOLL_RETURN_IF_ERROR(check_encoded(step, *encoded, held));
      }
      if (held.value != wanted[leaf] || held.encoded != (encoded != nullptr)) {
        return fail(fmt::format("input {} does not hold '{}'", k, wanted[leaf].first->name()));
      }
      if (!held.codec.gives_values() &&
          !reads_only_outcome(instruction, static_cast<int>(k), held.codec)) {
        return fail(fmt::format("input {} holds no more of '{}' than {}", k,
                                wanted[leaf].first->name(), to_string(held.codec)));
      }
    }
  }
  if (k != step.inputs.size()) return fail("too many inputs");
  for (const EncodedInput& encoded : step.coding.inputs) {
    if (encoded.input < 0 || at(encoded.input) >= k) {
      return fail(fmt::format("has no input {} to decode", encoded.input));
    }
  }
  const ir::OpClass op_class = ir::op_info(instruction.opcode()).op_class;
  if (op_class == ir::OpClass::collective || op_class == ir::OpClass::async) {
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (const BufferId id : *list) {
        if (id >= 0 && needs_pin_[id] == 0) needs_pin_[id] = 2;
      }
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(end_async(instruction));
  PLIMSOLL_RETURN_IF_ERROR(check_sliced_states(step));
  PLIMSOLL_RETURN_IF_ERROR(write_outputs(step));
  const bool sends =
      instruction.opcode() == ir::Opcode::send || instruction.opcode() == ir::Opcode::recv;
  if (sends || (op_class == ir::OpClass::async && async_start_of(instruction) == nullptr)) {
    for (const auto* list : {&step.inputs, &step.outputs}) {
      for (const BufferId id : *list) {
        if (id < 0) continue;
        started_[&instruction].push_back(id);
        held_.insert(id);
      }
    }
  }
  return ok_status();
}

// What is read as it is encoded must be that code, and stay what it is.
Status PlanChecker::check_encoded(const Step& step, const EncodedInput& input,
                                  const Content& held) const {
  if (!held.encoded || held.codec != input.codec) {
    return fail(fmt::format("input {} is not encoded by {}", input.input, to_string(input.codec)));
  }
  const BufferId id = step.inputs[at(input.input)];
  if (std::find(step.outputs.begin(), step.outputs.end(), id) != step.outputs.end()) {
    return fail("writes into what it reads encoded");
  }
  return ok_status();
}

const EncodedInput* PlanChecker::encoded_input(const Step& step, std::size_t input) {
  for (const EncodedInput& encoded : step.coding.inputs) {
    if (encoded.input == static_cast<int>(input)) return &encoded;
  }
  return nullptr;
}

// An operation that has been started works on its buffers until its `done`: until then they may not
// be freed or written (held_).
Status PlanChecker::end_async(const Instruction& done) {
  const Instruction* start = async_start_of(done);
  if (start == nullptr) return ok_status();
  const auto found = started_.find(start);
  if (found == started_.end()) return ok_status();
  for (const BufferId id : found->second) {
    if (!is_alive(id)) {
      return fail(fmt::format("buffer {} that '{}' reads does not live until its done", id.value(),
                              start->name()));
    }
    held_.erase(held_.find(id));
  }
  started_.erase(found);
  return ok_status();
}

Status PlanChecker::write_outputs(const Step& step) {
  const Instruction& instruction = *step.instruction;
  const std::vector<const ir::Shape*> shapes = ir::leaves(instruction.shape());
  if (shapes.size() + step.coding.outputs.size() != step.outputs.size()) {
    return fail("wrong number of outputs");
  }
  std::unordered_map<BufferId, int> inputs;
  for (const BufferId id : step.inputs) {
    if (id >= 0) inputs.emplace(id, 0);
  }
  std::unordered_set<BufferId> written;
  for (std::size_t o = 0; o < shapes.size(); ++o) {
    const BufferId id = step.outputs[o];
    const bool only_code = id < 0 && encodes(step, static_cast<int>(o));
    if (!only_code && shapes[o]->is_array() != (id >= 0)) return fail("output kind mismatch");
    if (id < 0) continue;
    const SlicedState* sliced = sliced_state(step, o);
    const std::int64_t bytes =
        sliced != nullptr ? sliced->stored_bytes() : aligned_bytes(shapes[o]->byte_size());
    if (buffer(id).bytes != bytes) {
      return fail(fmt::format("output {} has the wrong size", o));
    }
    // What a loop does not change stays: in the buffer it is read from, and no other.
    if (passes_through(instruction, static_cast<int>(o))) {
      if (id != step.inputs[o]) return fail("moves a state that the loop does not change");
      continue;
    }
    if (!written.insert(id).second) return fail("writes one buffer twice");
    if (inputs.contains(id)) {
      for (std::size_t k = 0; k < step.inputs.size(); ++k) {
        if (step.inputs[k] == id &&
            !reuses_operand(instruction, static_cast<int>(k), static_cast<int>(o)) &&
            !branch_leaves(step, k, static_cast<int>(o))) {
          return fail(fmt::format("output {} overwrites an input in use", o));
        }
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(
        write(id, {{&instruction, static_cast<int>(o)}, {}, false, sliced != nullptr}));
  }
  PLIMSOLL_RETURN_IF_ERROR(write_codes(step, shapes));
  if (step.workspace >= 0) {
    if (!is_buffer(step.workspace) || !is_alive(step.workspace)) return fail("bad workspace");
    if (inputs.contains(step.workspace) || written.contains(step.workspace)) {
      return fail("the workspace is in use");
    }
    if (in_transfer_[step.workspace] >= 0) {
      return fail("the workspace is in a transfer that nobody has waited for");
    }
    content(step.workspace) = {};
  }
  return check_callees(step);
}

// Whether result `o` of a conditional is where its input `k` was: the branch that reads it there
// leaves its result in that parameter's place.
bool PlanChecker::branch_leaves(const Step& step, std::size_t k, int o) {
  if (step.instruction->opcode() != Opcode::conditional || k == 0) return false;
  std::size_t first = 1;
  for (std::size_t b = 0; b < step.callees.size(); ++b) {
    const auto count =
        at(ir::leaf_count(step.instruction->operand(static_cast<int>(b) + 1)->shape()));
    if (k < first + count) {
      return step.callees[b]->results.size() > at(o) &&
             step.callees[b]->state_leaf(o) == static_cast<int>(k - first);
    }
    first += count;
  }
  return false;
}

bool PlanChecker::encodes(const Step& step, int leaf) {
  return std::any_of(step.coding.outputs.begin(), step.coding.outputs.end(),
                     [&](const EncodedOutput& encoded) { return encoded.output == leaf; });
}

// What the step encodes of its results lies in buffers of its own.
Status PlanChecker::write_codes(const Step& step, std::span<const ir::Shape* const> shapes) {
  for (std::size_t i = 0; i < step.coding.outputs.size(); ++i) {
    const EncodedOutput& encoded = step.coding.outputs[i];
    const BufferId id = step.outputs[shapes.size() + i];
    if (encoded.output < 0 || at(encoded.output) >= shapes.size() ||
        !suits(encoded.codec, *shapes[at(encoded.output)])) {
      return fail("has no result that " + to_string(encoded.codec) + " could store");
    }
    const ir::Shape& shape = *shapes[at(encoded.output)];
    if (!is_buffer(id) || buffer(id).bytes != aligned_bytes(encoded_bytes(encoded.codec, shape)) ||
        std::count(step.inputs.begin(), step.inputs.end(), id) > 0 ||
        std::count(step.outputs.begin(), step.outputs.end(), id) > 1) {
      return fail("a code has no buffer of its own");
    }
    PLIMSOLL_RETURN_IF_ERROR(
        write(id, {{step.instruction, encoded.output}, encoded.codec, true, false}));
  }
  return ok_status();
}

Status PlanChecker::check_sliced_states(const Step& step) {
  if (step.sliced.empty()) return ok_status();
  if (Status status = check_residuals(step); !status.ok()) return fail(status.message());
  for (std::size_t i = 0; i < step.sliced.size(); ++i) {
    const SlicedState& state = step.sliced[i];
    const BufferId home = step.outputs[at(state.leaf)];
    if (!is_buffer(home) || !is_tier(buffer(home))) return fail("a sliced residual is on no tier");
    const BufferId window = state.window;
    if (!is_buffer(window) || !is_alive(window) || buffer(window).placement != Placement::arena ||
        buffer(window).bytes < state.window_bytes() || window == step.workspace ||
        in_transfer_[window] >= 0 || held_.contains(window)) {
      return fail("a residual's window cannot be used");
    }
    for (const auto* list : {&step.inputs, &step.outputs}) {
      if (std::find(list->begin(), list->end(), window) != list->end()) {
        return fail("a residual's window is in use");
      }
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (step.sliced[k].window == window) return fail("two residuals have one window");
    }
    content(window) = {};
    needs_pin_[window] = 1;
  }
  return ok_status();
}

std::int64_t PlanChecker::tier_bytes(BufferId id, Placement tier) const {
  if (id == BufferId()) return 0;
  if (!is_buffer(id) || !is_alive(id) || buffer(id).placement != tier || in_transfer_[id] >= 0) {
    return -1;
  }
  return buffer(id).bytes;
}

Status PlanChecker::check_callees(const Step& step) {
  const Instruction& instruction = *step.instruction;
  if (ir::op_info(instruction.opcode()).op_class != ir::OpClass::control) {
    return step.callees.empty() ? ok_status() : fail("callees where none belong");
  }
  if (step.callees.size() != instruction.called_computations().size()) {
    return fail("a callee has no plan");
  }
  const std::int64_t workspace = step.workspace < 0 ? 0 : buffer(step.workspace).bytes;
  for (std::size_t i = 0; i < step.callees.size(); ++i) {
    const Plan& callee = *step.callees[i];
    if (callee.computation != instruction.called_computations()[i]) return fail("wrong callee");
    if (callee.arena_bytes > workspace) return fail("the workspace is too small for its callee");
    for (const MemorySpace tier : kTiers) {
      if (callee.tier_bytes[tier] > tier_bytes(step.tier_workspaces[tier], placement_on(tier))) {
        return fail("a tier's block is too small for its callee");
      }
    }
    const bool body = instruction.opcode() == Opcode::while_ && i == 1;
    const Kind kind = body                                          ? Kind::loop_body
                      : instruction.opcode() == Opcode::conditional ? Kind::branch
                                                                    : Kind::callee;
    if (!visited_.emplace(&callee, kind).second) continue;
    PLIMSOLL_RETURN_IF_ERROR(PlanChecker(callee, kind, visited_).run());
  }
  return ok_status();
}

}  // namespace plimsoll::planner
