// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/resolved_plan.h"

#include <algorithm>

namespace plimsoll::executor {
namespace {

using planner::Placement;
using planner::StepKind;

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + device::kBufferAlignment - 1) / device::kBufferAlignment *
         device::kBufferAlignment;
}

double shape_bytes(const ir::Instruction& instruction) {
  double bytes = static_cast<double>(instruction.shape().byte_size());
  for (const ir::Instruction* operand : instruction.operands()) {
    bytes += static_cast<double>(operand->shape().byte_size());
  }
  return bytes;
}

class Resolver {
 public:
  explicit Resolver(const Program& program) : program_(program) {}
  Status resolve(const planner::Plan& plan, ResolvedPlan& out);
  Resolution& result() { return result_; }

 private:
  std::int32_t profile_entry(const planner::Step& step, const device::Kernel* kernel);
  std::int32_t timed_entry(const planner::Step& step, const device::Kernel* kernel);

  const Program& program_;
  Resolution result_;
  std::unordered_map<const ir::Instruction*, std::int64_t> constant_offsets_;
  std::map<std::string, std::int32_t, std::less<>> profile_index_;
  std::unordered_map<const ir::Instruction*, std::int32_t> timed_index_;
};

std::int32_t Resolver::profile_entry(const planner::Step& step, const device::Kernel* kernel) {
  std::string name;
  switch (step.kind) {
    case StepKind::free:
      return -1;
    case StepKind::copy:
      name = "copy";
      break;
    case StepKind::upload:
      name = "upload";
      break;
    default:
      // Control flow is not timed itself: its callees' steps are.
      if (kernel == nullptr) return -1;
      name = kernel->name();
  }
  const auto [it, inserted] =
      profile_index_.emplace(std::move(name), static_cast<std::int32_t>(result_.profile.size()));
  if (inserted) {
    ProfileEntry entry;
    entry.name = it->first;
    if (kernel != nullptr) entry.origin = kernel->origin();
    result_.profile.push_back(std::move(entry));
  }
  return it->second;
}

std::int32_t Resolver::timed_entry(const planner::Step& step, const device::Kernel* kernel) {
  if (kernel == nullptr) return -1;
  const auto [it, inserted] =
      timed_index_.emplace(step.instruction, static_cast<std::int32_t>(result_.timed.size()));
  if (inserted) result_.timed.push_back(step.instruction);
  return it->second;
}

Status Resolver::resolve(const planner::Plan& plan, ResolvedPlan& out) {
  out.plan = &plan;
  for (const planner::Buffer& buffer : plan.buffers) {
    std::int64_t offset = -1;
    if (buffer.placement == Placement::constant) {
      const auto [it, inserted] = constant_offsets_.emplace(buffer.source, result_.constant_bytes);
      if (inserted) {
        const ir::Literal* literal = buffer.source->attributes().literal.get();
        if (literal == nullptr || literal->is_elided()) {
          return failed_precondition("constant '" + buffer.source->name() +
                                     "' was elided ({...}) and has no values to run with");
        }
        result_.constants.push_back({literal, result_.constant_bytes});
        result_.constant_bytes += round_up(buffer.bytes);
      }
      offset = it->second;
    }
    out.constant_offsets.push_back(offset);
    std::int64_t bytes = buffer.bytes;
    if (buffer.placement == Placement::parameter && buffer.source != nullptr) {
      // The plan's sizes are rounded up; a caller's host buffer ends where its values end.
      const auto leaves = ir::leaves(buffer.source->shape());
      bytes = std::min(bytes, leaves[static_cast<std::size_t>(buffer.leaf)]->byte_size());
    }
    out.bytes.push_back(bytes);
  }
  for (const planner::Step& step : plan.steps) {
    ResolvedStep resolved;
    resolved.kind = step.kind;
    resolved.instruction = step.instruction;
    if (step.instruction != nullptr) {
      resolved.opcode = step.instruction->opcode();
      const bool moves_bytes = step.kind == StepKind::copy || step.kind == StepKind::upload ||
                               step.kind == StepKind::free;
      if (!moves_bytes) resolved.kernel = program_.kernel(*step.instruction);
    }
    resolved.inputs = static_cast<std::int32_t>(out.ids.size());
    resolved.input_count = static_cast<std::int32_t>(step.inputs.size());
    out.ids.insert(out.ids.end(), step.inputs.begin(), step.inputs.end());
    resolved.outputs = static_cast<std::int32_t>(out.ids.size());
    resolved.output_count = static_cast<std::int32_t>(step.outputs.size());
    out.ids.insert(out.ids.end(), step.outputs.begin(), step.outputs.end());
    resolved.workspace = step.workspace;
    resolved.callees = static_cast<std::int32_t>(out.callees.size());
    resolved.callee_count = static_cast<std::int32_t>(step.callees.size());
    resolved.profile = profile_entry(step, resolved.kernel);
    if (step.kind == StepKind::compute || step.kind == StepKind::recompute) {
      resolved.timed = timed_entry(step, resolved.kernel);
    }
    if (step.instruction != nullptr) resolved.bytes = shape_bytes(*step.instruction);
    for (const auto& callee : step.callees) {
      ResolvedPlan nested;
      PLIMSOLL_RETURN_IF_ERROR(resolve(*callee, nested));
      out.callees.push_back(std::move(nested));
    }
    out.steps.push_back(resolved);
  }
  return ok_status();
}

}  // namespace

Result<Resolution> resolve(const Program& program, const planner::Plan& plan) {
  Resolver resolver(program);
  // Kept apart while the resolver fills in the rest; both move into one result.
  ResolvedPlan entry;
  PLIMSOLL_RETURN_IF_ERROR(resolver.resolve(plan, entry));
  Resolution resolution = std::move(resolver.result());
  resolution.entry = std::move(entry);
  return resolution;
}

}  // namespace plimsoll::executor
