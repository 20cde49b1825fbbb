// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/run.h"

#include <chrono>
#include <cstring>

namespace plimsoll::executor {

using planner::Placement;
using planner::StepKind;

Status Run::run_plan(const ResolvedPlan& plan, std::byte* arena, std::span<void* const> parameters,
                     std::span<void* const> outputs, std::vector<void*>* addresses_out) {
  const auto& buffers = plan.plan->buffers;
  std::vector<void*> addresses(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const planner::Buffer& buffer = buffers[i];
    switch (buffer.placement) {
      case Placement::arena:
        addresses[i] = arena + buffer.offset;
        break;
      case Placement::parameter:
        addresses[i] = parameters[static_cast<std::size_t>(buffer.index)];
        break;
      case Placement::output:
        addresses[i] = outputs[static_cast<std::size_t>(buffer.index)];
        break;
      case Placement::constant:
        addresses[i] = const_cast<std::byte*>(constants_ + plan.constant_offsets[i]);
        break;
      case Placement::host:
      case Placement::disk:
        addresses[i] = nullptr;  // no kernel's to touch
        break;
    }
  }
  for (const ResolvedStep& step : plan.steps) {
    const bool timed = !timings_.empty() && step.timed >= 0;
    if ((profile_.empty() && !timed) || step.profile < 0) {
      PLIMSOLL_RETURN_IF_ERROR(run_step(plan, step, addresses));
      continue;
    }
    PLIMSOLL_RETURN_IF_ERROR(stream_.synchronize());
    const auto start = std::chrono::steady_clock::now();
    PLIMSOLL_RETURN_IF_ERROR(run_step(plan, step, addresses));
    PLIMSOLL_RETURN_IF_ERROR(stream_.synchronize());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (timed) {
      Timing& timing = timings_[static_cast<std::size_t>(step.timed)];
      timing.seconds += elapsed.count();
      ++timing.launches;
    }
    if (profile_.empty()) continue;
    ProfileEntry& entry = profile_[static_cast<std::size_t>(step.profile)];
    entry.seconds += elapsed.count();
    entry.bytes += step.bytes;
    ++entry.launches;
    if (step.kind == StepKind::recompute) ++entry.recomputes;
  }
  if (addresses_out != nullptr) *addresses_out = std::move(addresses);
  return ok_status();
}

Status Run::run_step(const ResolvedPlan& plan, const ResolvedStep& step,
                     const std::vector<void*>& addresses) {
  if (step.kind == StepKind::free) return ok_status();
  constexpr int kInline = 32;
  void* inline_pointers[kInline];
  std::vector<void*> heap_pointers;
  const int total = step.input_count + step.output_count;
  void** pointers = inline_pointers;
  if (total > kInline) {
    heap_pointers.resize(static_cast<std::size_t>(total));
    pointers = heap_pointers.data();
  }
  const auto address = [&](planner::BufferId id) {
    return id < 0 ? nullptr : addresses[static_cast<std::size_t>(id)];
  };
  for (int i = 0; i < step.input_count; ++i) {
    pointers[i] = address(plan.ids[static_cast<std::size_t>(step.inputs + i)]);
  }
  for (int i = 0; i < step.output_count; ++i) {
    pointers[step.input_count + i] = address(plan.ids[static_cast<std::size_t>(step.outputs + i)]);
  }
  const std::span<void* const> inputs(pointers, static_cast<std::size_t>(step.input_count));
  const std::span<void* const> outputs(pointers + step.input_count,
                                       static_cast<std::size_t>(step.output_count));
  void* workspace = address(step.workspace);
  if (step.kind == StepKind::copy || step.kind == StepKind::upload) {
    const bool upload = step.kind == StepKind::upload;
    const auto sized = static_cast<std::size_t>(upload ? step.inputs : step.outputs);
    const auto id = static_cast<std::size_t>(plan.ids[sized]);
    return stream_.copy(
        outputs[0], inputs[0], plan.bytes[id],
        !upload ? device::CopyKind::device_to_device : device::CopyKind::host_to_device);
  }
  if (step.kernel != nullptr) {
    const device::KernelArguments arguments{
        std::span<const void* const>(const_cast<const void* const*>(pointers), inputs.size()),
        outputs, workspace};
    Status status = step.kernel->launch(stream_, arguments);
    return status.ok() ? status : status.with_context("'" + step.instruction->name() + "'");
  }
  auto* frame = static_cast<std::byte*>(workspace);
  switch (step.opcode) {
    case ir::Opcode::call:
      return run_plan(plan.callees[static_cast<std::size_t>(step.callees)], frame, inputs, outputs);
    case ir::Opcode::while_:
      return run_while(plan, step, inputs, outputs, frame);
    case ir::Opcode::conditional:
      return run_conditional(plan, step, inputs, outputs, frame);
    default:
      return internal_error("no way to run '" + step.instruction->name() + "'");
  }
}

Status Run::run_while(const ResolvedPlan& plan, const ResolvedStep& step,
                      std::span<void* const> inputs, std::span<void* const> outputs,
                      std::byte* workspace) {
  const ResolvedPlan& condition = plan.callees[static_cast<std::size_t>(step.callees)];
  const ResolvedPlan& body = plan.callees[static_cast<std::size_t>(step.callees) + 1];
  for (int i = 0; i < step.output_count; ++i) {
    const auto leaf = static_cast<std::size_t>(i);
    const planner::BufferId id = plan.ids[static_cast<std::size_t>(step.outputs + i)];
    if (id < 0 || inputs[leaf] == outputs[leaf]) continue;
    PLIMSOLL_RETURN_IF_ERROR(
        copy(outputs[leaf], inputs[leaf], plan.bytes[static_cast<std::size_t>(id)]));
  }
  std::vector<void*> addresses;
  for (;;) {
    // The predicate is one host byte outside the budget's account.
    alignas(device::kBufferAlignment) std::byte predicate[device::kBufferAlignment] = {};
    void* predicate_pointer = predicate;
    PLIMSOLL_RETURN_IF_ERROR(
        run_plan(condition, workspace, outputs, std::span(&predicate_pointer, 1)));
    PLIMSOLL_RETURN_IF_ERROR(stream_.synchronize());
    if (predicate[0] == std::byte{0}) return ok_status();
    PLIMSOLL_RETURN_IF_ERROR(run_plan(body, workspace, outputs, {}, &addresses));
    for (std::size_t leaf = 0; leaf < body.plan->results.size(); ++leaf) {
      const planner::BufferId id = body.plan->results[leaf];
      if (id < 0) continue;
      const auto result = static_cast<std::size_t>(id);
      if (addresses[result] == outputs[leaf]) continue;
      PLIMSOLL_RETURN_IF_ERROR(copy(outputs[leaf], addresses[result], body.bytes[result]));
    }
  }
}

Status Run::run_conditional(const ResolvedPlan& plan, const ResolvedStep& step,
                            std::span<void* const> inputs, std::span<void* const> outputs,
                            std::byte* workspace) {
  PLIMSOLL_RETURN_IF_ERROR(stream_.synchronize());
  int branch = 0;
  if (step.instruction->operand(0)->shape().dtype() == ir::DType::pred) {
    std::uint8_t predicate = 0;
    std::memcpy(&predicate, inputs[0], 1);
    branch = predicate != 0 ? 0 : 1;
  } else {
    std::int32_t index = 0;
    std::memcpy(&index, inputs[0], sizeof(index));
    branch = index < 0 || index >= step.callee_count ? step.callee_count - 1 : index;
  }
  std::size_t first = 1;
  for (int i = 1; i <= branch; ++i) {
    first += static_cast<std::size_t>(ir::leaf_count(step.instruction->operand(i)->shape()));
  }
  const auto count =
      static_cast<std::size_t>(ir::leaf_count(step.instruction->operand(branch + 1)->shape()));
  return run_plan(plan.callees[static_cast<std::size_t>(step.callees + branch)], workspace,
                  inputs.subspan(first, count), outputs);
}

}  // namespace plimsoll::executor
