// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/alignment.h"
#include "runtime/planner/planner.h"
#include "runtime/planner/views.h"

namespace plimsoll::planner {
namespace {

using ir::Instruction;
using ir::Opcode;

// What a buffer holds: leaf `second` of instruction `first`; null: undefined.
using Content = std::pair<const Instruction*, int>;

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// Runs a plan on names instead of numbers. Shares nothing with the code that makes plans but the
// definition of views and of in-place reuse.
class Checker {
 public:
  enum class Kind : std::uint8_t { entry, callee, loop_body };
  Checker(const Plan& plan, Kind kind)
      : plan_(plan), kind_(kind), loop_body_(kind == Kind::loop_body) {}

  Status run() {
    if (plan_.computation == nullptr) return fail("no computation");
    resolve_views();
    PLIMSOLL_RETURN_IF_ERROR(check_buffers());
    PLIMSOLL_RETURN_IF_ERROR(check_overlaps());
    PLIMSOLL_RETURN_IF_ERROR(execute());
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

  const std::vector<Content>& leaves_of(const Instruction& instruction) {
    return leaves_.at(&instruction);
  }

  void resolve_views() {
    leaves_.reserve(static_cast<std::size_t>(plan_.computation->instruction_count()));
    for (const auto& owned : plan_.computation->instructions()) {
      const Instruction& instruction = *owned;
      std::vector<Content> leaves;
      if (instruction.opcode() == Opcode::parameter || !is_view(instruction)) {
        const int count = ir::leaf_count(instruction.shape());
        for (int leaf = 0; leaf < count; ++leaf) leaves.emplace_back(&instruction, leaf);
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
    contents_.assign(plan_.buffers.size(), {nullptr, 0});
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
          contents_[i] = parameter_contents_[index];
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
          contents_[i] = {b.source, b.leaf};
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

  // Sweeps over the steps with the live arena buffers sorted by offset: neighbours may not touch.
  Status check_overlaps() {
    const auto steps = static_cast<std::int32_t>(plan_.steps.size());
    std::vector<std::pair<std::int32_t, BufferId>> starts, ends;
    for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer& b = plan_.buffers[i];
      if (b.placement != Placement::arena) continue;
      if (b.first_step > b.last_step || b.first_step < 0 || b.last_step >= std::max(steps, 1)) {
        return fail("buffer " + std::to_string(i) + " has a bad life");
      }
      if (b.bytes == 0) continue;
      starts.emplace_back(b.first_step, static_cast<BufferId>(i));
      ends.emplace_back(b.last_step, static_cast<BufferId>(i));
    }
    std::sort(starts.begin(), starts.end());
    std::sort(ends.begin(), ends.end());
    std::map<std::int64_t, std::int64_t> live;  // offset -> end
    std::int64_t bytes = 0, most = 0;
    std::size_t next_end = 0;
    for (const auto& [step, id] : starts) {
      while (next_end < ends.size() && ends[next_end].first < step) {
        const Buffer& b = plan_.buffers[static_cast<std::size_t>(ends[next_end++].second)];
        live.erase(b.offset);
        bytes -= b.bytes;
      }
      const Buffer& b = plan_.buffers[static_cast<std::size_t>(id)];
      const auto above = live.lower_bound(b.offset);
      if ((above != live.end() && above->first < b.offset + b.bytes) ||
          (above != live.begin() && std::prev(above)->second > b.offset)) {
        step_ = step;
        return fail("buffer " + std::to_string(id) + " overlaps a live one");
      }
      live.emplace(b.offset, b.offset + b.bytes);
      bytes += b.bytes;
      most = std::max(most, bytes);
    }
    live_arena_ = most;
    return ok_status();
  }

  bool is_alive(BufferId id) const {
    const Buffer& b = plan_.buffers[static_cast<std::size_t>(id)];
    return b.placement != Placement::arena || (b.first_step <= step_ && step_ <= b.last_step);
  }

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
          if (!is_alive(id)) return fail("buffer " + std::to_string(id) + " used outside its life");
        }
      }
      if (step.kind == StepKind::free) continue;
      if (step.kind == StepKind::copy || step.kind == StepKind::upload) {
        PLIMSOLL_RETURN_IF_ERROR(move(step));
      } else {
        PLIMSOLL_RETURN_IF_ERROR(compute(step, done));
      }
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
    const Content content = contents_[static_cast<std::size_t>(step.inputs[0])];
    if (content.first == nullptr) return fail("copies undefined bytes");
    return write(step.outputs[0], content);
  }

  Status write(BufferId id, Content content) {
    const Buffer& b = plan_.buffers[static_cast<std::size_t>(id)];
    if (b.placement == Placement::constant || b.host)
      return fail("writes a constant or host memory");
    if (b.placement == Placement::parameter && !b.donated) {
      return fail("writes a read-only parameter");
    }
    if (held_.contains(id)) return fail("writes what an asynchronous start still reads");
    contents_[static_cast<std::size_t>(id)] = content;
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
        if (shapes[leaf]->is_array() != (step.inputs[k] >= 0)) return fail("input kind mismatch");
        if (!shapes[leaf]->is_array()) continue;
        const auto b = static_cast<std::size_t>(step.inputs[k]);
        if (plan_.buffers[b].host) return fail("reads host memory");
        if (contents_[b] != wanted[leaf]) {
          return fail("input " + std::to_string(k) + " does not hold '" +
                      wanted[leaf].first->name() + "'");
        }
      }
    }
    if (k != step.inputs.size()) return fail("too many inputs");
    PLIMSOLL_RETURN_IF_ERROR(end_async(instruction));
    PLIMSOLL_RETURN_IF_ERROR(write_outputs(step));
    if (ir::op_info(instruction.opcode()).op_class == ir::OpClass::async &&
        async_start_of(instruction) == nullptr) {
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
      if (plan_.buffers[static_cast<std::size_t>(id)].bytes != round_up(shapes[o]->byte_size())) {
        return fail("output " + std::to_string(o) + " has the wrong size");
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
      PLIMSOLL_RETURN_IF_ERROR(write(id, {&instruction, static_cast<int>(o)}));
    }
    if (step.workspace >= 0) {
      if (!is_buffer(step.workspace) || !is_alive(step.workspace)) return fail("bad workspace");
      if (inputs.contains(step.workspace) || written.contains(step.workspace)) {
        return fail("the workspace is in use");
      }
      contents_[static_cast<std::size_t>(step.workspace)] = {nullptr, 0};
    }
    return check_callees(step);
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
      const bool body = instruction.opcode() == Opcode::while_ && i == 1;
      PLIMSOLL_RETURN_IF_ERROR(Checker(callee, body ? Kind::loop_body : Kind::callee).run());
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
      if (contents_[static_cast<std::size_t>(id)] != wanted[k]) {
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
  std::int32_t step_ = -1;
  std::unordered_map<const Instruction*, std::vector<Content>> leaves_;
  std::vector<Content> parameter_contents_;
  std::vector<Content> contents_;
  std::unordered_map<const Instruction*, std::vector<BufferId>> started_;  // until the done
  std::unordered_multiset<BufferId> held_;                                 // their operands
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

Status check_plan(const ir::Module& module, const Plan& plan) {
  if (plan.computation != module.entry()) {
    return internal_error("the plan is not one of the entry computation");
  }
  std::unordered_set<const ir::Computation*> seen;
  if (plan.by_cause.constants != module_constant_bytes(*module.entry(), seen)) {
    return internal_error("the plan counts the constants wrong");
  }
  return Checker(plan, Checker::Kind::entry).run();
}

}  // namespace plimsoll::planner
