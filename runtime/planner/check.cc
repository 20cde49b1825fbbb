// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/planner/check.h"
#include "runtime/planner/check_codecs.h"
#include "runtime/planner/check_packing.h"
#include "runtime/planner/check_sliced.h"
#include "runtime/planner/views.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

// Leaf `second` of instruction `first`; null: none.
using Leaf = std::pair<const Instruction*, int>;

// What a buffer holds: a value, or its encoded form, or (decoded from a compare_mask, `codec`
// tells) something that compares with the codec's constant as the value does.
struct Content {
  Leaf value{nullptr, 0};
  Codec codec;
  bool encoded = false;
  bool sliced = false;  // a stack as a loop's windows have it on another tier
  bool is_value() const { return !encoded && codec.kind == CodecKind::none; }
};

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Runs a plan on names instead of numbers. Shares nothing with the code that makes plans but the
// definition of views, of in-place reuse and of stacks.
class Checker {
 public:
  enum class Kind : std::uint8_t { entry, callee, loop_body };
  // What was proved or is being proved.
  using Visited = std::set<std::pair<const Plan*, Kind>>;
  Checker(const Plan& plan, Kind kind, Visited& visited)
      : plan_(plan), kind_(kind), loop_body_(kind == Kind::loop_body), visited_(visited) {}

  Status run() {
    if (plan_.computation == nullptr) return fail("no computation");
    resolve_views();
    PLIMSOLL_RETURN_IF_ERROR(check_buffers());
    PLIMSOLL_RETURN_IF_ERROR(check_addresses());
    PLIMSOLL_RETURN_IF_ERROR(execute());
    PLIMSOLL_RETURN_IF_ERROR(check_pinned());
    return check_results();
  }

 private:
  Status fail(const std::string& what) const {
    std::string where = "plan of computation '";
    where += plan_.computation == nullptr ? "?" : plan_.computation->name();
    where += "'";
    if (step_ >= 0) {
      where += " at step " + std::to_string(step_);
      const Instruction* instruction = plan_.steps[static_cast<std::size_t>(step_)].instruction;
      if (instruction != nullptr) where += " (" + instruction->name() + ")";
    }
    return internal_error(where + ": " + what);
  }

  const std::vector<Leaf>& leaves_of(const Instruction& instruction) {
    return leaves_.at(&instruction);
  }

  void resolve_views() {
    leaves_.reserve(static_cast<std::size_t>(plan_.computation->instruction_count()));
    for (const auto& owned : plan_.computation->instructions()) {
      const Instruction& instruction = *owned;
      std::vector<Leaf> leaves;
      if (instruction.opcode() == Opcode::parameter || !is_view(instruction)) {
        const int count = ir::leaf_count(instruction.shape());
        for (int leaf = 0; leaf < count; ++leaf) {
          if (passes_through(instruction, leaf)) {
            leaves.push_back(leaves_of(*instruction.operand(0))[static_cast<std::size_t>(leaf)]);
          } else {
            leaves.emplace_back(&instruction, leaf);
          }
        }
      } else if (instruction.opcode() == Opcode::after_all) {
        leaves.emplace_back(&instruction, 0);
      } else if (instruction.opcode() == Opcode::tuple) {
        for (const Instruction* operand : instruction.operands()) {
          const auto& part = leaves_of(*operand);
          leaves.insert(leaves.end(), part.begin(), part.end());
        }
      } else if (instruction.opcode() == Opcode::get_tuple_element) {
        const auto& all = leaves_of(*instruction.operand(0));
        const int first = ir::leaf_offset(instruction.operand(0)->shape(),
                                          static_cast<int>(instruction.attributes().tuple_index));
        const int count = ir::leaf_count(instruction.shape());
        leaves.assign(all.begin() + first, all.begin() + first + count);
      } else {
        leaves = leaves_of(*instruction.operand(0));
      }
      leaves_.emplace(&instruction, std::move(leaves));
    }
  }

  Status check_buffers() {
    std::vector<const ir::Shape*> parameter_leaves;
    for (const Instruction* parameter : plan_.computation->parameters()) {
      if (parameter == nullptr) continue;
      int leaf = 0;
      for (const ir::Shape* shape : ir::leaves(parameter->shape())) {
        parameter_leaves.push_back(shape);
        parameter_contents_.emplace_back(parameter, leaf++);
      }
    }
    contents_.assign(plan_.buffers.size(), {});
    in_transfer_.assign(plan_.buffers.size(), -1);
    needs_pin_.assign(plan_.buffers.size(), 0);
    const std::vector<const ir::Shape*> result_leaves =
        ir::leaves(plan_.computation->root()->shape());
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& b = plan_.buffers[i];
      const std::string name = "buffer " + std::to_string(i);
      const auto index = static_cast<std::size_t>(b.index);
      if (b.bytes < 0 || b.bytes != round_up(b.bytes)) return fail(name + " has odd bytes");
      switch (b.placement) {
        case Placement::arena:
          if (b.offset < 0 || b.offset % kBufferAlignment != 0 ||
              b.offset + b.bytes > plan_.arena_bytes) {
            return fail(name + " lies outside the arena or is not aligned");
          }
          break;
        case Placement::parameter:
          if (index >= parameter_leaves.size() ||
              b.bytes != round_up(parameter_leaves[index]->byte_size())) {
            return fail(name + " does not match parameter leaf " + std::to_string(index));
          }
          // A callee's parameters are its caller's values; a loop body's are the state.
          if (kind_ != Kind::entry && b.donated != loop_body_) {
            return fail(name + ": only a loop body's parameters are its own to write");
          }
          contents_[i].value = parameter_contents_[index];
          break;
        case Placement::output:
          if (index >= result_leaves.size() ||
              b.bytes != round_up(result_leaves[index]->byte_size())) {
            return fail(name + " does not match result leaf " + std::to_string(index));
          }
          break;
        case Placement::constant:
          if (b.source == nullptr || b.source->opcode() != Opcode::constant) {
            return fail(name + " is a constant without source");
          }
          contents_[i].value = {b.source, b.leaf};
          break;
        case Placement::host:
        case Placement::disk:
          if (b.offset < 0 || b.offset % kBufferAlignment != 0 ||
              b.offset + b.bytes >
                  (b.placement == Placement::host ? plan_.host_bytes : plan_.disk_bytes)) {
            return fail(name + " lies outside its tier's block or is not aligned");
          }
          break;
      }
    }
    return ok_status();
  }

  Status check_addresses() {
    auto arena = check_overlaps(plan_, Placement::arena);
    if (!arena.ok()) return fail(arena.status().message());
    live_arena_ = arena->live;
    for (const Placement tier : {Placement::host, Placement::disk}) {
      auto placed = check_overlaps(plan_, tier);
      if (!placed.ok()) return fail(placed.status().message());
      if (placed->end != (tier == Placement::host ? plan_.host_bytes : plan_.disk_bytes)) {
        return fail("the bytes of a tier are not what it says");
      }
    }
    return ok_status();
  }

  bool is_alive(BufferId id) const {
    const Buffer& b = plan_.buffers[static_cast<std::size_t>(id)];
    const bool lives = b.placement == Placement::arena || is_tier(b);
    return !lives || (b.first_step <= step_ && step_ <= b.last_step);
  }

  static bool is_tier(const Buffer& b) {
    return b.placement == Placement::host || b.placement == Placement::disk;
  }

  const Buffer& buffer(BufferId id) const { return plan_.buffers[static_cast<std::size_t>(id)]; }
  Content& content(BufferId id) { return contents_[static_cast<std::size_t>(id)]; }

  bool is_buffer(BufferId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < plan_.buffers.size();
  }

  Status execute() {
    std::unordered_set<const Instruction*> done;
    for (step_ = 0; step_ < static_cast<std::int32_t>(plan_.steps.size()); ++step_) {
      const Step& step = plan_.steps[static_cast<std::size_t>(step_)];
      for (const auto* list : {&step.inputs, &step.outputs}) {
        for (const BufferId id : *list) {
          if (id == -1) continue;
          if (!is_buffer(id)) return fail("no such buffer");
          const std::string name = "buffer " + std::to_string(id);
          if (!is_alive(id)) return fail(name + " used outside its life");
          // Others may read what a swap_out reads.
          const std::int32_t transfer = in_transfer_[static_cast<std::size_t>(id)];
          const bool shares =
              transfer >= 0 && list == &step.inputs && !is_tier(buffer(id)) &&
              step.kind != StepKind::free && step.kind != StepKind::swap_out &&
              plan_.steps[static_cast<std::size_t>(transfer)].kind == StepKind::swap_out;
          if (step.kind != StepKind::swap_wait && transfer >= 0 && !shares) {
            return fail(name + " is in a transfer that nobody has waited for");
          }
          const bool moves = step.kind == StepKind::swap_out || step.kind == StepKind::swap_in ||
                             step.kind == StepKind::swap_wait || step.kind == StepKind::free;
          if (is_tier(buffer(id)) && !moves && !is_sliced(step, *list, id)) {
            return fail(name + " is only for transfers");
          }
        }
      }
      PLIMSOLL_RETURN_IF_ERROR(execute(step, done));
    }
    step_ = -1;
    for (const auto& instruction : plan_.computation->instructions()) {
      if (!is_view(*instruction) && instruction->has_side_effect() &&
          !done.contains(instruction.get())) {
        return fail("'" + instruction->name() + "' has a side effect and never runs");
      }
    }
    return ok_status();
  }

  static const SlicedState* sliced_state(const Step& step, std::size_t leaf) {
    for (const SlicedState& state : step.sliced) {
      if (state.leaf == static_cast<int>(leaf)) return &state;
    }
    return nullptr;
  }

  // `id` stands in the list (of the step) only where a stack is sliced.
  static bool is_sliced(const Step& step, const std::vector<BufferId>& list, BufferId id) {
    for (std::size_t leaf = 0; leaf < list.size(); ++leaf) {
      if (list[leaf] == id && sliced_state(step, leaf) == nullptr) return false;
    }
    return true;
  }

  Status execute(const Step& step, std::unordered_set<const Instruction*>& done) {
    switch (step.kind) {
      case StepKind::free:
        for (const BufferId id : step.inputs) {
          if (id >= 0 && (buffer(id).placement == Placement::arena || is_tier(buffer(id)))) {
            content(id) = {};
          }
        }
        return ok_status();
      case StepKind::copy:
      case StepKind::upload:
        return move(step);
      case StepKind::encode:
      case StepKind::decode:
        return code(step);
      case StepKind::swap_out:
      case StepKind::swap_in:
        return start_transfer(step);
      case StepKind::swap_wait:
        return end_transfer(step);
      default:
        return compute(step, done);
    }
  }

  // One input that holds leaf `step.leaf` of `step.instruction` in some form, and one output.
  Status check_moved(const Step& step) {
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

  Status code(const Step& step) {
    PLIMSOLL_RETURN_IF_ERROR(check_moved(step));
    const ir::Shape& shape =
        *ir::leaves(step.instruction->shape())[static_cast<std::size_t>(step.leaf)];
    if (!suits(step.codec, shape)) return fail("arrays like this one have no such codec");
    const bool encoding = step.kind == StepKind::encode;
    const BufferId plain = encoding ? step.inputs[0] : step.outputs[0];
    const BufferId small = encoding ? step.outputs[0] : step.inputs[0];
    if (buffer(plain).bytes != round_up(shape.byte_size()) ||
        buffer(small).bytes != round_up(encoded_bytes(step.codec, shape))) {
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
      if (made.codec.kind != CodecKind::compare_mask) made.codec = {};
    }
    return write(step.outputs[0], made);
  }

  Status start_transfer(const Step& step) {
    PLIMSOLL_RETURN_IF_ERROR(check_moved(step));
    const bool out = step.kind == StepKind::swap_out;
    const BufferId near = out ? step.inputs[0] : step.outputs[0];
    const BufferId far = out ? step.outputs[0] : step.inputs[0];
    if (buffer(near).placement != Placement::arena || !is_tier(buffer(far))) {
      return fail("a transfer is between the arena and another tier");
    }
    if (buffer(near).bytes != buffer(far).bytes) return fail("a transfer between different sizes");
    if (content(step.inputs[0]).sliced) return fail("a stack comes back slice by slice");
    if (held_.contains(near)) return fail("moves what an asynchronous start still reads");
    // Lasts until the wait; what comes is not there before.
    content(step.outputs[0]) = {};
    for (const BufferId id : {near, far}) in_transfer_[static_cast<std::size_t>(id)] = step_;
    needs_pin_[static_cast<std::size_t>(near)] = 1;
    ++open_transfers_;
    arriving_[step_] = content(step.inputs[0]);
    return ok_status();
  }

  Status end_transfer(const Step& step) {
    const auto found = arriving_.find(step.transfer);
    if (found == arriving_.end()) return fail("waits for a transfer that is not under way");
    const Step& start = plan_.steps[static_cast<std::size_t>(step.transfer)];
    const BufferId from = start.inputs[0], to = start.outputs[0];
    for (const BufferId id : {from, to}) {
      if (!is_alive(id)) {
        return fail("buffer " + std::to_string(id) + " does not live until its transfer has ended");
      }
      in_transfer_[static_cast<std::size_t>(id)] = -1;
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

  // Pinned memory is scarce: what a transfer or a collective touches, and nothing else.
  Status check_pinned() {
    if (open_transfers_ > 0) return fail("a transfer that nobody waits for");
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& b = plan_.buffers[i];
      if (b.pinned && needs_pin_[i] == 0) {
        return fail("buffer " + std::to_string(i) + " is pinned for nothing");
      }
      if (!b.pinned && needs_pin_[i] == 1) {
        return fail("buffer " + std::to_string(i) + " is in a transfer and not pinned");
      }
    }
    return ok_status();
  }

  Status move(const Step& step) {
    if (step.inputs.size() != 1 || step.outputs.size() != 1 || step.inputs[0] < 0 ||
        step.outputs[0] < 0) {
      return fail("a copy needs one input and one output");
    }
    const Buffer& from = plan_.buffers[static_cast<std::size_t>(step.inputs[0])];
    const Buffer& to = plan_.buffers[static_cast<std::size_t>(step.outputs[0])];
    if (from.bytes != to.bytes) return fail("a copy between different sizes");
    if (from.host != (step.kind == StepKind::upload)) {
      return fail("host memory is read by uploads, and by nothing else");
    }
    const Content moved = content(step.inputs[0]);
    if (moved.value.first == nullptr) return fail("copies undefined bytes");
    return write(step.outputs[0], moved);
  }

  Status write(BufferId id, const Content& what) {
    const Buffer& b = plan_.buffers[static_cast<std::size_t>(id)];
    if (b.placement == Placement::constant || b.host)
      return fail("writes a constant or host memory");
    if (b.placement == Placement::parameter && !b.donated) {
      return fail("writes a read-only parameter");
    }
    if (held_.contains(id)) return fail("writes what an asynchronous start still reads");
    content(id) = what;
    return ok_status();
  }

  Status compute(const Step& step, std::unordered_set<const Instruction*>& done) {
    if (step.instruction == nullptr) return fail("no instruction");
    const Instruction& instruction = *step.instruction;
    if (instruction.parent() != plan_.computation)
      return fail("instruction of another computation");
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
            return fail("a stack that is written slice by slice has no input");
          continue;
        }
        if (shapes[leaf]->is_array() != (step.inputs[k] >= 0)) return fail("input kind mismatch");
        if (!shapes[leaf]->is_array()) continue;
        const auto b = static_cast<std::size_t>(step.inputs[k]);
        if (plan_.buffers[b].host) return fail("reads host memory");
        if (contents_[b].sliced != (sliced != nullptr)) return fail("a stack is read otherwise");
        if (contents_[b].value != wanted[leaf] || contents_[b].encoded) {
          return fail("input " + std::to_string(k) + " does not hold '" +
                      wanted[leaf].first->name() + "'");
        }
        if (!contents_[b].is_value() &&
            !reads_only_outcome(instruction, static_cast<int>(k), contents_[b].codec)) {
          return fail("input " + std::to_string(k) + " holds no more of '" +
                      wanted[leaf].first->name() + "' than " + to_string(contents_[b].codec));
        }
      }
    }
    if (k != step.inputs.size()) return fail("too many inputs");
    const ir::OpClass op_class = ir::op_info(instruction.opcode()).op_class;
    if (op_class == ir::OpClass::collective || op_class == ir::OpClass::async) {
      for (const auto* list : {&step.inputs, &step.outputs}) {
        for (const BufferId id : *list) {
          if (id >= 0 && needs_pin_[static_cast<std::size_t>(id)] == 0) {
            needs_pin_[static_cast<std::size_t>(id)] = 2;
          }
        }
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(end_async(instruction));
    PLIMSOLL_RETURN_IF_ERROR(check_sliced_states(step));
    PLIMSOLL_RETURN_IF_ERROR(write_outputs(step));
    if (op_class == ir::OpClass::async && async_start_of(instruction) == nullptr) {
      for (const BufferId id : step.inputs) {
        if (id >= 0) started_[&instruction].push_back(id);
        if (id >= 0) held_.insert(id);
      }
    }
    return ok_status();
  }

  // The operands of the start lived, untouched, until its done.
  Status end_async(const Instruction& done) {
    const Instruction* start = async_start_of(done);
    if (start == nullptr) return ok_status();
    const auto found = started_.find(start);
    if (found == started_.end()) return ok_status();
    for (const BufferId id : found->second) {
      if (!is_alive(id)) {
        return fail("buffer " + std::to_string(id) + " that '" + start->name() +
                    "' reads does not live until its done");
      }
      held_.erase(held_.find(id));
    }
    started_.erase(found);
    return ok_status();
  }

  Status write_outputs(const Step& step) {
    const Instruction& instruction = *step.instruction;
    const std::vector<const ir::Shape*> shapes = ir::leaves(instruction.shape());
    if (shapes.size() != step.outputs.size()) return fail("wrong number of outputs");
    std::unordered_map<BufferId, int> inputs;
    for (const BufferId id : step.inputs) {
      if (id >= 0) inputs.emplace(id, 0);
    }
    std::unordered_set<BufferId> written;
    for (std::size_t o = 0; o < shapes.size(); ++o) {
      const BufferId id = step.outputs[o];
      if (shapes[o]->is_array() != (id >= 0)) return fail("output kind mismatch");
      if (id < 0) continue;
      const SlicedState* sliced = sliced_state(step, o);
      const std::int64_t bytes =
          sliced != nullptr ? sliced->stored_bytes() : round_up(shapes[o]->byte_size());
      if (plan_.buffers[static_cast<std::size_t>(id)].bytes != bytes) {
        return fail("output " + std::to_string(o) + " has the wrong size");
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
              !reuses_operand(instruction, static_cast<int>(k), static_cast<int>(o))) {
            return fail("output " + std::to_string(o) + " overwrites an input in use");
          }
        }
      }
      PLIMSOLL_RETURN_IF_ERROR(
          write(id, {{&instruction, static_cast<int>(o)}, {}, false, sliced != nullptr}));
    }
    if (step.workspace >= 0) {
      if (!is_buffer(step.workspace) || !is_alive(step.workspace)) return fail("bad workspace");
      if (inputs.contains(step.workspace) || written.contains(step.workspace)) {
        return fail("the workspace is in use");
      }
      if (in_transfer_[static_cast<std::size_t>(step.workspace)] >= 0) {
        return fail("the workspace is in a transfer that nobody has waited for");
      }
      content(step.workspace) = {};
    }
    return check_callees(step);
  }

  // Each stack is one, lies on a tier, and has a window of its own.
  Status check_sliced_states(const Step& step) {
    if (step.sliced.empty()) return ok_status();
    if (Status status = check_stacks(step); !status.ok()) return fail(status.message());
    for (std::size_t i = 0; i < step.sliced.size(); ++i) {
      const SlicedState& state = step.sliced[i];
      const BufferId home = step.outputs[static_cast<std::size_t>(state.leaf)];
      if (!is_buffer(home) || !is_tier(buffer(home))) return fail("a sliced stack is on no tier");
      const BufferId window = state.window;
      if (!is_buffer(window) || !is_alive(window) || buffer(window).placement != Placement::arena ||
          buffer(window).bytes < state.window_bytes() || window == step.workspace ||
          in_transfer_[static_cast<std::size_t>(window)] >= 0 || held_.contains(window)) {
        return fail("a stack's window cannot be used");
      }
      for (const auto* list : {&step.inputs, &step.outputs}) {
        if (std::find(list->begin(), list->end(), window) != list->end()) {
          return fail("a stack's window is in use");
        }
      }
      for (std::size_t k = 0; k < i; ++k) {
        if (step.sliced[k].window == window) return fail("two stacks have one window");
      }
      content(window) = {};
      needs_pin_[static_cast<std::size_t>(window)] = 1;
    }
    return ok_status();
  }

  // Of the block of a step's callees; -1 when it is none.
  std::int64_t tier_bytes(BufferId id, Placement tier) const {
    if (id == -1) return 0;
    if (!is_buffer(id) || !is_alive(id) || buffer(id).placement != tier ||
        in_transfer_[static_cast<std::size_t>(id)] >= 0) {
      return -1;
    }
    return buffer(id).bytes;
  }

  Status check_callees(const Step& step) {
    const Instruction& instruction = *step.instruction;
    if (ir::op_info(instruction.opcode()).op_class != ir::OpClass::control) {
      return step.callees.empty() ? ok_status() : fail("callees where none belong");
    }
    if (step.callees.size() != instruction.called_computations().size()) {
      return fail("a callee has no plan");
    }
    const std::int64_t workspace =
        step.workspace < 0 ? 0 : plan_.buffers[static_cast<std::size_t>(step.workspace)].bytes;
    for (std::size_t i = 0; i < step.callees.size(); ++i) {
      const Plan& callee = *step.callees[i];
      if (callee.computation != instruction.called_computations()[i]) return fail("wrong callee");
      if (callee.arena_bytes > workspace) return fail("the workspace is too small for its callee");
      if (callee.host_bytes > tier_bytes(step.host_workspace, Placement::host) ||
          callee.disk_bytes > tier_bytes(step.disk_workspace, Placement::disk)) {
        return fail("a tier's block is too small for its callee");
      }
      const bool body = instruction.opcode() == Opcode::while_ && i == 1;
      const Kind kind = body ? Kind::loop_body : Kind::callee;
      if (!visited_.emplace(&callee, kind).second) continue;
      PLIMSOLL_RETURN_IF_ERROR(Checker(callee, kind, visited_).run());
    }
    return ok_status();
  }

  Status check_results() {
    const auto& wanted = leaves_of(*plan_.computation->root());
    const std::vector<const ir::Shape*> shapes = ir::leaves(plan_.computation->root()->shape());
    if (plan_.results.size() != wanted.size()) return fail("wrong number of results");
    std::int64_t outputs = 0;
    std::unordered_set<BufferId> returned;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const BufferId id = plan_.results[k];
      if (!shapes[k]->is_array()) continue;
      const std::string name = "result " + std::to_string(k);
      if (!is_buffer(id)) return fail(name + " has no buffer");
      const Buffer& b = plan_.buffers[static_cast<std::size_t>(id)];
      if (content(id).value != wanted[k] || !content(id).is_value()) {
        return fail(name + " does not hold '" + wanted[k].first->name() + "'");
      }
      const bool fits =
          loop_body_ ? (b.placement == Placement::arena || b.placement == Placement::constant ||
                        (b.placement == Placement::parameter && b.index == static_cast<int>(k)))
                     : ((b.placement == Placement::output && b.index == static_cast<int>(k)) ||
                        b.placement == Placement::parameter);
      if (!fits) return fail(name + " is in a buffer where it may not be");
      if (!loop_body_ && !returned.insert(id).second) return fail(name + " shares its buffer");
      if (b.placement == Placement::output) outputs += b.bytes;
      if (b.placement == Placement::arena && !plan_.steps.empty() &&
          b.last_step != static_cast<std::int32_t>(plan_.steps.size()) - 1) {
        return fail(name + " does not live to the end");
      }
    }
    return check_peak(outputs);
  }

  Status check_peak(std::int64_t outputs) {
    std::int64_t parameters = 0;
    for (const Buffer& b : plan_.buffers) {
      if (b.placement == Placement::parameter && !b.host) parameters += b.bytes;
    }
    const std::int64_t fixed = parameters + outputs + plan_.by_cause.constants;
    if (plan_.peak_bytes != fixed + plan_.arena_bytes) return fail("the peak is not what it says");
    if (plan_.live_bytes != fixed + live_arena_) return fail("live_bytes is not what it says");
    if (plan_.peak_bytes > plan_.limit_bytes) return fail("the peak is above the limit");
    return ok_status();
  }

  const Plan& plan_;
  const Kind kind_;
  const bool loop_body_;
  Visited& visited_;
  std::int32_t step_ = -1;
  std::unordered_map<const Instruction*, std::vector<Leaf>> leaves_;
  std::vector<Leaf> parameter_contents_;
  std::vector<Content> contents_;
  std::unordered_map<const Instruction*, std::vector<BufferId>> started_;  // until the done
  std::unordered_multiset<BufferId> held_;                                 // their operands
  std::vector<std::int32_t> in_transfer_;  // per buffer, the step of the transfer under way, or -1
  std::unordered_map<std::int32_t, Content> arriving_;  // by the transfer's step
  int open_transfers_ = 0;
  // Per buffer: 1 when a transfer touches it, 2 when only a collective does.
  std::vector<char> needs_pin_;
  std::int64_t live_arena_ = 0;
};

std::int64_t module_constant_bytes(const ir::Computation& computation,
                                   std::unordered_set<const ir::Computation*>& seen) {
  if (!seen.insert(&computation).second) return 0;
  std::int64_t bytes = 0;
  for (const auto& instruction : computation.instructions()) {
    if (instruction->opcode() == Opcode::constant) {
      for (const ir::Shape* shape : ir::leaves(instruction->shape())) {
        bytes += round_up(shape->byte_size());
      }
    }
    if (ir::op_info(instruction->opcode()).op_class != ir::OpClass::control) continue;
    for (const ir::Computation* callee : instruction->called_computations()) {
      bytes += module_constant_bytes(*callee, seen);
    }
  }
  return bytes;
}

}  // namespace

PlanProof prove_plan(const ir::Module& module, const Plan& plan) {
  if (plan.computation != module.entry()) {
    return {internal_error("the plan is not one of the entry computation"), 0};
  }
  std::unordered_set<const ir::Computation*> seen;
  if (plan.by_cause.constants != module_constant_bytes(*module.entry(), seen)) {
    return {internal_error("the plan counts the constants wrong"), 0};
  }
  Checker::Visited visited{{&plan, Checker::Kind::entry}};
  Status status = Checker(plan, Checker::Kind::entry, visited).run();
  return {std::move(status), static_cast<std::int64_t>(visited.size())};
}

Status check_plan(const ir::Module& module, const Plan& plan) {
  return prove_plan(module, plan).status;
}

}  // namespace plimsoll::planner
