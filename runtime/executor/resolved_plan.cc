// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/resolved_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "runtime/base/alignment.h"
#include "runtime/device/kernel_provider.h"
#include "runtime/executor/collectives_beside.h"
#include "runtime/executor/launch_order.h"
#include "runtime/executor/step_accesses.h"
#include "runtime/ir/dataflow/induction_variables.h"
#include "runtime/ir/elided_constant.h"

namespace plimsoll::executor {
namespace {

using planner::BufferId;
using planner::Placement;
using planner::StepId;
using planner::StepKind;

// What the instruction reads and writes by its shapes, whatever forms its buffers hold.
double shape_bytes(const ir::Instruction& instruction) {
  double bytes = static_cast<double>(instruction.shape().byte_size());
  for (const ir::Instruction* operand : instruction.operands()) {
    bytes += static_cast<double>(operand->shape().byte_size());
  }
  return bytes;
}

// The same by the buffers of a step, some of which hold codes that are smaller than the shapes say.
double bytes_touched(const planner::Step& step, const ResolvedPlan& plan) {
  double bytes = 0;
  for (const auto* list : {&step.inputs, &step.outputs}) {
    for (const BufferId id : *list) {
      if (id >= 0) bytes += static_cast<double>(plan.bytes[id]);
    }
  }
  return bytes;
}

// A plan speaks of instructions and buffers; what runs should look nothing up. Each step gets its
// kernel, its buffers as numbers in one flat list, the offsets of constants, the number under which
// its time is recorded, and, for steps that may share a launch, the group that they belong to
// (launch_order.h). Plans of callees are resolved once, however many steps call them.
class Resolver {
 public:
  explicit Resolver(const Program& program)
      : program_(program), properties_(program.provider().device()->properties()) {}
  Result<const ResolvedPlan*> resolve(const planner::Plan& plan);
  Resolution& result() { return result_; }

 private:
  Status resolve_step(const planner::Step& step, ResolvedPlan& out);
  Result<const device::Kernel*> codec_kernel(const planner::Step& step);
  std::int32_t measurement(const planner::Step& step, const ResolvedPlan& plan,
                           const device::Kernel* kernel);
  std::int32_t measurement(const planner::Step& step, const planner::SlicedState& state,
                           const ResolvedPlan& plan);
  std::int32_t number(Measurement made);
  bool may_share_launch(const ResolvedStep& step, const ResolvedPlan& plan) const;
  std::shared_ptr<const device::JointLaunch> chain(StepId first, StepId second,
                                                   const ResolvedPlan& plan) const;
  Status join_launches(ResolvedPlan& out);

  const Program& program_;
  const device::Properties properties_;
  Resolution result_;
  std::unordered_map<const ir::Instruction*, std::int64_t> constant_offsets_;
  std::map<std::string, device::CodecKernels> codecs_;  // by codec and shape
  using Key = std::tuple<const ir::Instruction*, StepKind, int, std::string>;
  std::map<Key, std::int32_t> measurement_index_;
  std::unordered_map<const planner::Plan*, const ResolvedPlan*> resolved_;
};

const ir::Shape& leaf_shape(const planner::Step& step) {
  return *ir::leaves(step.instruction->shape())[at(step.leaf)];
}

bool Resolver::may_share_launch(const ResolvedStep& step, const ResolvedPlan& plan) const {
  if ((step.kind != StepKind::compute && step.kind != StepKind::recompute) ||
      step.kernel == nullptr ||
      !step.kernel->may_join(at(step.input_count), at(step.output_count))) {
    return false;
  }
  // Orders that the program asks for are kept to the letter.
  if (!step.instruction->control_predecessors().empty() ||
      !step.instruction->control_successors().empty()) {
    return false;
  }
  std::int64_t bytes = 0;
  const std::int32_t count = step.input_count + step.output_count;
  for (std::int32_t i = 0; i < count; ++i) {
    const BufferId id = plan.ids[at(step.inputs + i)];
    if (id >= 0) bytes += plan.bytes[id];
  }
  return bytes <= properties_.most_joint_bytes;
}

bool is_computed(const ResolvedStep& step) {
  return (step.kind == StepKind::compute || step.kind == StepKind::recompute) &&
         step.kernel != nullptr && step.instruction->control_predecessors().empty() &&
         step.instruction->control_successors().empty();
}

// One launch of a step and of the next one, if that reads what the first makes while it is near;
// else null. The second may begin before the first has ended, so that it must not write what the
// first still reads, which a plan may have put at one place.
std::shared_ptr<const device::JointLaunch> Resolver::chain(StepId first, StepId second,
                                                           const ResolvedPlan& plan) const {
  const ResolvedStep& a = plan.steps[first];
  const ResolvedStep& b = plan.steps[second];
  if (!is_computed(a) || !is_computed(b) || a.output_count != 1 || b.workspace >= 0 ||
      !b.kernel->may_join(at(b.input_count), at(b.output_count))) {
    return nullptr;
  }
  const BufferId made = plan.ids[at(a.outputs)];
  const auto inputs = std::span(plan.ids).subspan(at(b.inputs), at(b.input_count));
  const auto read = std::find(inputs.begin(), inputs.end(), made);
  if (made < 0 || read == inputs.end() || std::count(inputs.begin(), inputs.end(), made) != 1) {
    return nullptr;
  }
  const Placement place = plan.plan->buffers[made].placement;
  const std::optional<Access> written = access_of(*plan.plan, made, true);
  if (!written || place == Placement::parameter) return nullptr;
  const std::vector<Access> of_first = accesses_of(*plan.plan, plan.plan->steps[first]);
  const std::vector<Access> of_second = accesses_of(*plan.plan, plan.plan->steps[second]);
  const auto is_apart = [](const Access& x, const Access& y) {
    return x.space != y.space || x.end <= y.begin || y.end <= x.begin;
  };
  for (const Access& x : of_first) {
    for (const Access& y : of_second) {
      if (is_apart(x, y) || !(x.writes || y.writes)) continue;
      // What is made is read, and may be written over element by element.
      const bool is_made =
          x.writes && x.space == written->space && x.begin == written->begin && y.begin == x.begin;
      if (!is_made) return nullptr;
    }
  }
  return program_.provider().chain(*a.kernel, at(a.input_count), *b.kernel,
                                   at(read - inputs.begin()));
}

Result<const device::Kernel*> Resolver::codec_kernel(const planner::Step& step) {
  const ir::Shape& shape = leaf_shape(step);
  const auto [it, inserted] = codecs_.try_emplace(ir::to_string(step.codec) + shape.to_string());
  if (inserted) {
    PLIMSOLL_ASSIGN_OR_RETURN(it->second, program_.provider().codec(step.codec, shape));
    result_.codecs.push_back(it->second.encode);
    result_.codecs.push_back(it->second.decode);
  }
  return (step.kind == StepKind::encode ? it->second.encode : it->second.decode).get();
}

// Under which number a step's time is counted, and what is known of it beside. A recomputation
// counts with the first execution, as it is the same kernel; a wait counts for the transfer that it
// waits for. The bytes are those that its launch moves: kernels of codecs read one form and write
// the other; copies and transfers read and write the same bytes, which is why they count twice.
std::int32_t Resolver::measurement(const planner::Step& step, const ResolvedPlan& plan,
                                   const device::Kernel* kernel) {
  Measurement made;
  made.kind = step.kind == StepKind::recompute ? StepKind::compute : step.kind;
  made.instruction = step.instruction;
  made.leaf = step.leaf;
  made.codec = step.codec;
  made.codes = !step.coding.empty();
  made.synchronous = step.synchronous;
  const auto name_transfer = [&](const char* way, BufferId far) {
    made.tier = space_of(plan.plan->buffers[far].placement);
    made.name = std::string(way) + std::string(tier_info(made.tier).name);
  };
  switch (step.kind) {
    case StepKind::free:
      return -1;
    case StepKind::copy:
      made.name = "copy";
      break;
    case StepKind::upload:
      made.name = "upload";
      break;
    case StepKind::download:
      made.name = "download";
      break;
    case StepKind::swap_out:
      name_transfer("swap-out.", step.outputs[0]);
      break;
    case StepKind::swap_in:
      name_transfer("swap-in.", step.inputs[0]);
      break;
    case StepKind::swap_wait:
      return plan.steps[step.transfer].measurement;
    default:
      // Control flow is not timed itself: its callees' steps are.
      if (kernel == nullptr) return -1;
      made.name = kernel->name();
      made.origin = kernel->origin();
  }
  if (kernel != nullptr && made.codec.kind != ir::CodecKind::none) {
    made.bytes = static_cast<double>(leaf_shape(step).byte_size() +
                                     ir::encoded_bytes(step.codec, leaf_shape(step)));
  } else if (!step.outputs.empty() && kernel == nullptr && step.outputs[0] >= 0) {
    made.bytes = 2 * static_cast<double>(plan.bytes[step.outputs[0]]);
  } else if (step.instruction != nullptr) {
    made.bytes = shape_bytes(*step.instruction);
  }
  if (made.codes) made.bytes = bytes_touched(step, plan);
  return number(std::move(made));
}

std::int32_t Resolver::measurement(const planner::Step& step, const planner::SlicedState& state,
                                   const ResolvedPlan& plan) {
  const BufferId home = step.outputs[at(state.leaf)];
  Measurement made;
  made.kind = state.writes ? StepKind::swap_out : StepKind::swap_in;
  made.instruction = step.instruction;
  made.leaf = state.leaf;
  made.synchronous = state.synchronous;
  made.tier = space_of(plan.plan->buffers[home].placement);
  made.name =
      std::string(state.writes ? "swap-out." : "swap-in.") + std::string(tier_info(made.tier).name);
  made.bytes = 2 * static_cast<double>(state.slice_bytes);
  return number(std::move(made));
}

// Of what is the same thing by name.
std::int32_t Resolver::number(Measurement made) {
  const auto [it, inserted] =
      measurement_index_.emplace(Key(made.instruction, made.kind, made.leaf, made.name),
                                 static_cast<std::int32_t>(result_.measurements.size()));
  if (inserted) result_.measurements.push_back(std::move(made));
  return it->second;
}

// The plan is entered before its steps are resolved; its callees come behind it, so the first one
// of the result is the entry's. Constants of all plans share one block, each once, by their source.
Result<const ResolvedPlan*> Resolver::resolve(const planner::Plan& plan) {
  if (const auto found = resolved_.find(&plan); found != resolved_.end()) return found->second;
  auto made = std::make_unique<ResolvedPlan>();
  ResolvedPlan& out = *made;
  resolved_.emplace(&plan, made.get());
  result_.plans.push_back(std::move(made));
  out.plan = &plan;
  for (const planner::Buffer& buffer : plan.buffers) {
    std::int64_t offset = -1;
    std::int64_t bytes = buffer.bytes;
    if (buffer.placement == Placement::constant && buffer.host) {
      const ir::Literal* literal = buffer.source->attributes().literal.get();
      if (literal == nullptr || literal->is_elided()) return ir::elided_constant(*buffer.source);
      bytes = std::min(bytes, literal->shape().byte_size());
    } else if (buffer.placement == Placement::constant) {
      const auto [it, inserted] = constant_offsets_.emplace(buffer.source, result_.constant_bytes);
      if (inserted) {
        const ir::Literal* literal = buffer.source->attributes().literal.get();
        if (literal == nullptr || literal->is_elided()) {
          return ir::elided_constant(*buffer.source);
        }
        result_.constants.push_back({literal, result_.constant_bytes});
        result_.constant_bytes += aligned_bytes(buffer.bytes);
      }
      offset = it->second;
    }
    out.constant_offsets.push_back(offset);
    if (buffer.placement == Placement::parameter && buffer.source != nullptr) {
      // The plan's sizes are rounded up; a caller's host buffer ends where its values end.
      const auto leaves = ir::leaves(buffer.source->shape());
      bytes = std::min(bytes, leaves[at(buffer.leaf)]->byte_size());
    }
    // A caller's memory is as large as the result, and no larger.
    if (buffer.placement == Placement::output && buffer.host) {
      const auto leaves = ir::leaves(plan.computation->root()->shape());
      bytes = std::min(bytes, leaves[at(buffer.index)]->byte_size());
    }
    out.bytes.push_back(bytes);
  }
  for (const planner::Step& step : plan.steps) PLIMSOLL_RETURN_IF_ERROR(resolve_step(step, out));
  PLIMSOLL_RETURN_IF_ERROR(join_launches(out));
  return &out;
}

// Brings the steps into the order in which they are launched and makes one launch of each group of
// `order_launches`: `ends` are the groups' ends in that order. Example: ends {1, 4, 5} of five
// steps are three launches, of which the second has the steps 1, 2 and 3 and needs a joint kernel.
Status Resolver::join_launches(ResolvedPlan& out) {
  IdVector<StepId, char> may_join;
  for (const ResolvedStep& step : out.steps)
    may_join.push_back(may_share_launch(step, out) ? 1 : 0);
  const LaunchOrder order = order_launches(*out.plan, may_join, properties_.near_memory_bytes);
  const CollectivesBeside beside =
      find_collectives_beside(*out.plan, order, *program_.options().overlap_bytes);
  out.launch_steps = order.steps;
  std::int32_t begin = 0;
  for (std::size_t number = 0; number < order.ends.size(); ++number) {
    std::int32_t end = order.ends[number];
    ResolvedLaunch launch{begin, end - begin, -1};
    launch.goes_on = beside.goes_on[number] != 0;
    launch.meets = beside.meets[number] != 0;
    launch.waits = beside.waits[number];
    std::shared_ptr<const device::JointLaunch> chained;
    if (launch.step_count == 1 && !launch.goes_on && !launch.meets &&
        number + 1 < order.ends.size() && order.ends[number + 1] == end + 1 &&
        beside.goes_on[number + 1] == 0 && beside.meets[number + 1] == 0 &&
        beside.waits[number + 1] == 0) {
      chained = chain(order.steps[at(begin)], order.steps[at(end)], out);
    }
    if (chained != nullptr) {
      ++number;
      ++end;
      launch.step_count = 2;
      launch.is_chain = true;
      launch.joint = static_cast<std::int32_t>(out.joint_launches.size());
      out.joint_launches.push_back(std::move(chained));
    }
    if (launch.goes_on) ++result_.launches.beside;
    if (launch.step_count > 1 && launch.joint < 0) {
      std::vector<const device::Kernel*> parts;
      for (std::int32_t i = begin; i < end; ++i) {
        parts.push_back(out.steps[order.steps[at(i)]].kernel);
      }
      launch.joint = static_cast<std::int32_t>(out.joint_launches.size());
      PLIMSOLL_ASSIGN_OR_RETURN(auto joint, program_.provider().join(parts));
      out.joint_launches.push_back(std::move(joint));
    }
    if (out.steps[order.steps[at(begin)]].kernel != nullptr) {
      ++result_.launches.launches;
      result_.launches.kernels += launch.step_count;
    }
    out.launches.push_back(launch);
    begin = end;
  }
  return ok_status();
}

Status Resolver::resolve_step(const planner::Step& step, ResolvedPlan& out) {
  ResolvedStep resolved;
  resolved.kind = step.kind;
  resolved.instruction = step.instruction;
  switch (step.kind) {
    case StepKind::encode:
    case StepKind::decode: {
      PLIMSOLL_ASSIGN_OR_RETURN(resolved.kernel, codec_kernel(step));
      break;
    }
    case StepKind::compute:
    case StepKind::recompute:
    case StepKind::collective_start:
    case StepKind::collective_done: {
      if (step.instruction == nullptr) return internal_error("a step without an instruction");
      resolved.opcode = step.instruction->opcode();
      PLIMSOLL_ASSIGN_OR_RETURN(resolved.kernel, program_.kernel(step));
      resolved.seconds = program_.costs().base().seconds(*step.instruction);
      break;
    }
    default:
      break;
  }
  resolved.inputs = static_cast<std::int32_t>(out.ids.size());
  resolved.input_count = static_cast<std::int32_t>(step.inputs.size());
  out.ids.insert(out.ids.end(), step.inputs.begin(), step.inputs.end());
  resolved.outputs = static_cast<std::int32_t>(out.ids.size());
  for (const BufferId id : step.outputs) {
    // Of what only its code is made, the kernel makes nothing else.
    if (id < 0 && !step.coding.outputs.empty()) continue;
    out.ids.push_back(id);
    ++resolved.output_count;
  }
  resolved.workspace = step.workspace;
  resolved.tier_workspaces = step.tier_workspaces;
  resolved.transfer = step.transfer;
  resolved.synchronous =
      step.kind == StepKind::swap_wait ? out.steps[step.transfer].synchronous : step.synchronous;
  resolved.callees = static_cast<std::int32_t>(out.callees.size());
  resolved.callee_count = static_cast<std::int32_t>(step.callees.size());
  resolved.measurement = measurement(step, out, resolved.kernel);
  resolved.sliced = static_cast<std::int32_t>(out.sliced.size());
  resolved.sliced_count = static_cast<std::int32_t>(step.sliced.size());
  for (const planner::SlicedState& state : step.sliced) {
    out.sliced.push_back({state, measurement(step, state, out)});
  }
  for (const auto& callee : step.callees) {
    PLIMSOLL_ASSIGN_OR_RETURN(const ResolvedPlan* const nested, resolve(*callee));
    out.callees.push_back(nested);
  }
  if (resolved.opcode == ir::Opcode::while_ && resolved.callee_count > 0) {
    resolved.rounds = ir::round_count(*step.instruction).value_or(-1);
  }
  out.steps.push_back(resolved);
  return ok_status();
}

}  // namespace

Result<Resolution> resolve(const Program& program, const planner::Plan& plan) {
  Resolver resolver(program);
  PLIMSOLL_RETURN_IF_ERROR(resolver.resolve(plan).status());
  PLIMSOLL_RETURN_IF_ERROR(make_loop_sequences(resolver.result().plans, program.provider()));
  return std::move(resolver.result());
}

}  // namespace plimsoll::executor
