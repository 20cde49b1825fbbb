// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "runtime/base/index.h"
#include "runtime/planner/check/check_codecs.h"
#include "runtime/planner/check/plan_checker.h"

namespace plimsoll::planner {

using ir::Instruction;
using ir::Opcode;

Status PlanChecker::check_moved(const Step& step) {
  if (step.instruction == nullptr || step.instruction->parent() != plan_.computation) {
    return fail("no instruction of this computation");
  }
  if (step.inputs.size() != 1 || step.outputs.size() != 1 || step.inputs[0] < 0 ||
      step.outputs[0] < 0 || step.inputs[0] == step.outputs[0]) {
    return fail("needs one input and one output of its own");
  }
  if (buffer(step.inputs[0]).host) return fail("reads host memory");
  if (content(step.inputs[0]).value != Leaf(step.instruction, step.leaf)) {
    return fail("the input does not hold what the step says");
  }
  return ok_status();
}

// The two directions of a codec, on names: encoding makes of a value "the value in this code",
// which only decoding by the same codec undoes. What a codec keeps of a value may be less than the
// value (a mask of x > 0). Then what is decoded is not x again, but stands for x where only that is
// asked: its content keeps the codec, and so is no value (`is_value`).
Status PlanChecker::code(const Step& step) {
  PLIMSOLL_RETURN_IF_ERROR(check_moved(step));
  const ir::Shape& shape = *ir::leaves(step.instruction->shape())[at(step.leaf)];
  if (!suits(step.codec, shape)) return fail("arrays like this one have no such codec");
  const bool encoding = step.kind == StepKind::encode;
  const BufferId plain = encoding ? step.inputs[0] : step.outputs[0];
  const BufferId small = encoding ? step.outputs[0] : step.inputs[0];
  if (buffer(plain).bytes != aligned_bytes(shape.byte_size()) ||
      buffer(small).bytes != aligned_bytes(encoded_bytes(step.codec, shape))) {
    return fail("a buffer has not the size of the codec");
  }
  Content made = content(step.inputs[0]);
  if (encoding) {
    // What was decoded from the same outcomes has them still.
    if (made.encoded || (!made.is_value() && made.codec != step.codec)) {
      return fail("encodes something else than the value");
    }
    made.encoded = true;
    made.codec = step.codec;
  } else {
    if (!made.encoded || made.codec != step.codec) return fail("decodes another code");
    made.encoded = false;
    // A lossy codec's result stands for the value: whoever allowed it wanted that.
    if (made.codec.gives_values()) made.codec = {};
  }
  return write(step.outputs[0], made);
}

// While a transfer is under way, its source may be read but not be written or freed, and its target
// holds nothing: both are marked with the step that started it until the wait. A plan that reads a
// value one step too early is caught here, where running it would be a race that mostly goes well.
Status PlanChecker::start_transfer(const Step& step) {
  PLIMSOLL_RETURN_IF_ERROR(check_moved(step));
  const bool out = step.kind == StepKind::swap_out;
  const BufferId near = out ? step.inputs[0] : step.outputs[0];
  const BufferId far = out ? step.outputs[0] : step.inputs[0];
  if (buffer(near).placement != Placement::arena || !is_tier(buffer(far))) {
    return fail("a transfer is between the arena and another tier");
  }
  if (buffer(near).bytes != buffer(far).bytes) return fail("a transfer between different sizes");
  if (content(step.inputs[0]).sliced) return fail("a residual comes back slice by slice");
  if (held_.contains(near)) return fail("moves what an asynchronous start still reads");
  // Lasts until the wait; what comes is not there before.
  content(step.outputs[0]) = {};
  for (const BufferId id : {near, far}) in_transfer_[id] = step_;
  needs_pin_[near] = 1;
  ++open_transfers_;
  arriving_[step_] = content(step.inputs[0]);
  return ok_status();
}

// The target holds what the source held when the transfer began, which is why that was noted then.
Status PlanChecker::end_transfer(const Step& step) {
  const auto found = arriving_.find(step.transfer);
  if (found == arriving_.end()) return fail("waits for a transfer that is not under way");
  const Step& start = plan_.steps[step.transfer];
  const BufferId from = start.inputs[0], to = start.outputs[0];
  for (const BufferId id : {from, to}) {
    if (!is_alive(id)) {
      return fail(fmt::format("buffer {} does not live until its transfer has ended", id.value()));
    }
    in_transfer_[id] = StepId();
  }
  for (const auto* list : {&step.inputs, &step.outputs}) {
    for (const BufferId id : *list) {
      if (id != from && id != to) return fail("waits for another transfer's buffers");
    }
  }
  content(to) = found->second;
  arriving_.erase(found);
  --open_transfers_;
  return ok_status();
}

Status PlanChecker::check_pinned() {
  if (open_transfers_ > 0) return fail("a transfer that nobody waits for");
  for (const BufferId id : plan_.buffers.ids()) {
    const Buffer& b = buffer(id);
    if (b.pinned && needs_pin_[id] == 0) {
      return fail(fmt::format("buffer {} is pinned for nothing", id.value()));
    }
    if (!b.pinned && needs_pin_[id] == 1) {
      return fail(fmt::format("buffer {} is in a transfer and not pinned", id.value()));
    }
  }
  return ok_status();
}

Status PlanChecker::move(const Step& step) {
  if (step.inputs.size() != 1 || step.outputs.size() != 1 || step.inputs[0] < 0 ||
      step.outputs[0] < 0) {
    return fail("a copy needs one input and one output");
  }
  const Buffer& from = buffer(step.inputs[0]);
  const Buffer& to = buffer(step.outputs[0]);
  if (from.bytes != to.bytes) return fail("a copy between different sizes");
  if (from.host != (step.kind == StepKind::upload)) {
    return fail("host memory is read by uploads, and by nothing else");
  }
  if (to.host != (step.kind == StepKind::download)) {
    return fail("host memory is written by downloads, and by nothing else");
  }
  const Content moved = content(step.inputs[0]);
  if (moved.value.first == nullptr) return fail("copies undefined bytes");
  if (to.host && to.placement == Placement::output) {
    content(step.outputs[0]) = moved;
    return ok_status();
  }
  return write(step.outputs[0], moved);
}

Status PlanChecker::write(BufferId id, const Content& what) {
  const Buffer& b = buffer(id);
  if (b.placement == Placement::constant || b.host) return fail("writes a constant or host memory");
  if (b.placement == Placement::parameter && !b.donated) {
    return fail("writes a read-only parameter");
  }
  if (held_.contains(id)) return fail("writes what an asynchronous start still reads");
  content(id) = what;
  return ok_status();
}

}  // namespace plimsoll::planner
