// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/executable.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>

namespace plimsoll::executor {
namespace {

using planner::Placement;
using planner::StepKind;

std::int64_t round_up(std::int64_t bytes) {
  return (bytes + device::kBufferAlignment - 1) / device::kBufferAlignment *
         device::kBufferAlignment;
}

// A plan with every look-up done: kernels by pointer, operands as ranges of one index array.
struct ResolvedStep {
  StepKind kind = StepKind::compute;
  ir::Opcode opcode = ir::Opcode::parameter;
  const ir::Instruction* instruction = nullptr;
  const device::Kernel* kernel = nullptr;
  std::int32_t inputs = 0, input_count = 0;  // ranges of ResolvedPlan::ids
  std::int32_t outputs = 0, output_count = 0;
  std::int32_t workspace = -1;
  std::int32_t callees = 0, callee_count = 0;  // range of ResolvedPlan::callees
  std::int32_t profile = -1;                   // entry of the executable's profile
};

struct ResolvedPlan {
  const planner::Plan* plan = nullptr;
  std::vector<ResolvedStep> steps;
  std::vector<planner::BufferId> ids;
  std::vector<ResolvedPlan> callees;
  std::vector<std::int64_t> constant_offsets;  // per buffer; -1 when it is no constant
  std::vector<std::int64_t> bytes;             // per buffer
};

struct Constant {
  const ir::Literal* literal;
  std::int64_t offset;
};

}  // namespace

struct Executable::Impl {
  ResolvedPlan entry;
  std::vector<Constant> constants;
  std::int64_t constant_bytes = 0;
  std::vector<int> output_parameter;                   // per result leaf
  std::vector<planner::ParameterResidency> residency;  // per parameter leaf
  std::atomic<bool> profiling{false};
  mutable std::mutex profile_mutex;
  std::vector<ProfileEntry> profile;
  std::map<std::string, std::int32_t, std::less<>> profile_index;
  std::unordered_map<const ir::Instruction*, std::int64_t> constant_index;

  Status resolve(const Program& program, const planner::Plan& plan, ResolvedPlan& out);
  std::int32_t profile_entry(const planner::Step& step, const device::Kernel* kernel);
};

namespace {

double shape_bytes(const ir::Instruction& instruction) {
  double bytes = static_cast<double>(instruction.shape().byte_size());
  for (const ir::Instruction* operand : instruction.operands()) {
    bytes += static_cast<double>(operand->shape().byte_size());
  }
  return bytes;
}

// One run: pointers, the profile's clock, and the walk over the steps.
class Run {
 public:
  Run(device::Stream& stream, const std::byte* constants, bool profiling, std::size_t entries)
      : stream_(stream),
        constants_(constants),
        seconds_(profiling ? entries : 0),
        launches_(profiling ? entries : 0),
        recomputes_(profiling ? entries : 0) {}

  Status run_plan(const ResolvedPlan& plan, std::byte* arena, std::span<void* const> parameters,
                  std::span<void* const> outputs, std::vector<void*>* addresses_out = nullptr);

  const std::vector<double>& seconds() const { return seconds_; }
  const std::vector<std::int64_t>& launches() const { return launches_; }
  const std::vector<std::int64_t>& recomputes() const { return recomputes_; }

 private:
  Status run_step(const ResolvedPlan& plan, const ResolvedStep& step,
                  const std::vector<void*>& addresses);
  Status run_while(const ResolvedPlan& plan, const ResolvedStep& step,
                   std::span<void* const> inputs, std::span<void* const> outputs,
                   std::byte* workspace);
  Status run_conditional(const ResolvedPlan& plan, const ResolvedStep& step,
                         std::span<void* const> inputs, std::span<void* const> outputs,
                         std::byte* workspace);
  Status copy(void* to, const void* from, std::int64_t bytes) {
    return stream_.copy(to, from, bytes, device::CopyKind::device_to_device);
  }

  device::Stream& stream_;
  const std::byte* constants_;
  std::vector<double> seconds_;
  std::vector<std::int64_t> launches_, recomputes_;
};

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
    }
  }
  for (const ResolvedStep& step : plan.steps) {
    if (seconds_.empty() || step.profile < 0) {
      PLIMSOLL_RETURN_IF_ERROR(run_step(plan, step, addresses));
      continue;
    }
    PLIMSOLL_RETURN_IF_ERROR(stream_.synchronize());
    const auto start = std::chrono::steady_clock::now();
    PLIMSOLL_RETURN_IF_ERROR(run_step(plan, step, addresses));
    PLIMSOLL_RETURN_IF_ERROR(stream_.synchronize());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const auto entry = static_cast<std::size_t>(step.profile);
    seconds_[entry] += elapsed.count();
    ++launches_[entry];
    if (step.kind == StepKind::recompute) ++recomputes_[entry];
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
    const auto id = static_cast<std::size_t>(plan.ids[static_cast<std::size_t>(step.outputs)]);
    return stream_.copy(outputs[0], inputs[0], plan.bytes[id],
                        step.kind == StepKind::copy ? device::CopyKind::device_to_device
                                                    : device::CopyKind::host_to_device);
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

}  // namespace

std::int32_t Executable::Impl::profile_entry(const planner::Step& step,
                                             const device::Kernel* kernel) {
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
      profile_index.emplace(std::move(name), static_cast<std::int32_t>(profile.size()));
  if (inserted) {
    ProfileEntry entry;
    entry.name = it->first;
    if (kernel != nullptr) entry.origin = kernel->origin();
    profile.push_back(std::move(entry));
  }
  return it->second;
}

Status Executable::Impl::resolve(const Program& program, const planner::Plan& plan,
                                 ResolvedPlan& out) {
  out.plan = &plan;
  for (const planner::Buffer& buffer : plan.buffers) {
    std::int64_t offset = -1;
    if (buffer.placement == Placement::constant) {
      const auto [it, inserted] = constant_index.emplace(buffer.source, constant_bytes);
      if (inserted) {
        const ir::Literal* literal = buffer.source->attributes().literal.get();
        if (literal == nullptr || literal->is_elided()) {
          return failed_precondition("constant '" + buffer.source->name() +
                                     "' was elided ({...}) and has no values to run with");
        }
        constants.push_back({literal, constant_bytes});
        constant_bytes += round_up(buffer.bytes);
      }
      offset = it->second;
    }
    out.constant_offsets.push_back(offset);
    out.bytes.push_back(buffer.bytes);
  }
  for (const planner::Step& step : plan.steps) {
    ResolvedStep resolved;
    resolved.kind = step.kind;
    resolved.instruction = step.instruction;
    if (step.instruction != nullptr) {
      resolved.opcode = step.instruction->opcode();
      if (step.kind == StepKind::compute || step.kind == StepKind::recompute) {
        resolved.kernel = program.kernel(*step.instruction);
      }
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
    if (resolved.profile >= 0 && step.instruction != nullptr) {
      // Of one launch, until the profile is read.
      profile[static_cast<std::size_t>(resolved.profile)].bytes = shape_bytes(*step.instruction);
    }
    for (const auto& callee : step.callees) {
      ResolvedPlan nested;
      PLIMSOLL_RETURN_IF_ERROR(resolve(program, *callee, nested));
      out.callees.push_back(std::move(nested));
    }
    out.steps.push_back(resolved);
  }
  return ok_status();
}

Result<std::shared_ptr<const Executable>> Executable::create(std::shared_ptr<const Program> program,
                                                             const planner::PlanOptions& options,
                                                             memory::Budget& budget) {
  planner::PlanOptions limited = options;
  limited.limit_bytes = std::min(options.limit_bytes, budget.limit());
  if (limited.parameters.empty()) {
    limited.parameters = planner::default_residency(program->module());
  }
  PLIMSOLL_ASSIGN_OR_RETURN(planner::Plan plan,
                            planner::make_plan(program->module(), program->cost_model(), limited));
#ifndef NDEBUG
  PLIMSOLL_RETURN_IF_ERROR(planner::check_plan(program->module(), plan));
#endif
  auto executable =
      std::make_shared<Executable>(std::move(program), std::move(plan), std::make_unique<Impl>());
  Impl& impl = *executable->impl_;
  PLIMSOLL_RETURN_IF_ERROR(impl.resolve(*executable->program_, executable->plan_, impl.entry));
  impl.residency = limited.parameters;
  for (const planner::BufferId id : executable->plan_.results) {
    int parameter = -1;
    if (id >= 0) {
      const planner::Buffer& buffer = executable->plan_.buffers[static_cast<std::size_t>(id)];
      if (buffer.placement == Placement::parameter) parameter = buffer.index;
    }
    impl.output_parameter.push_back(parameter);
  }
  return std::shared_ptr<const Executable>(std::move(executable));
}

Executable::Executable(std::shared_ptr<const Program> program, planner::Plan plan,
                       std::unique_ptr<Impl> impl)
    : program_(std::move(program)), plan_(std::move(plan)), impl_(std::move(impl)) {}

Executable::~Executable() = default;

planner::ParameterResidency Executable::residency(int leaf) const {
  return impl_->residency[static_cast<std::size_t>(leaf)];
}

int Executable::output_parameter(int leaf) const {
  return impl_->output_parameter[static_cast<std::size_t>(leaf)];
}

Status Executable::run(device::Stream& stream, memory::Budget& budget,
                       const Arguments& arguments) const {
  const std::string& name = plan_.computation->name();
  PLIMSOLL_ASSIGN_OR_RETURN(
      const memory::Allocation constants,
      budget.allocate(impl_->constant_bytes, memory::Tag::constants, "constants of " + name));
  PLIMSOLL_ASSIGN_OR_RETURN(
      const memory::Allocation arena,
      budget.allocate(plan_.arena_bytes, memory::Tag::arena, "temporaries of " + name));
  auto* constant_base = static_cast<std::byte*>(constants.data());
  for (const Constant& constant : impl_->constants) {
    const auto bytes = constant.literal->bytes();
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(constant_base + constant.offset, bytes.data(),
                                         static_cast<std::int64_t>(bytes.size()),
                                         device::CopyKind::host_to_device));
  }
  const bool profiling = impl_->profiling.load(std::memory_order_relaxed);
  Run run(stream, constant_base, profiling, impl_->profile.size());
  const Status status = run.run_plan(impl_->entry, static_cast<std::byte*>(arena.data()),
                                     arguments.parameters, arguments.outputs);
  const Status finished = stream.synchronize();
  PLIMSOLL_RETURN_IF_ERROR(status);
  PLIMSOLL_RETURN_IF_ERROR(finished);
  if (profiling) {
    const std::lock_guard lock(impl_->profile_mutex);
    for (std::size_t i = 0; i < impl_->profile.size(); ++i) {
      impl_->profile[i].seconds += run.seconds()[i];
      impl_->profile[i].launches += run.launches()[i];
      impl_->profile[i].recomputes += run.recomputes()[i];
    }
  }
  return ok_status();
}

std::vector<ProfileEntry> Executable::profile() const {
  const std::lock_guard lock(impl_->profile_mutex);
  std::vector<ProfileEntry> entries = impl_->profile;
  for (ProfileEntry& entry : entries) entry.bytes *= static_cast<double>(entry.launches);
  return entries;
}

void Executable::clear_profile() const {
  const std::lock_guard lock(impl_->profile_mutex);
  for (ProfileEntry& entry : impl_->profile) {
    entry.seconds = 0;
    entry.launches = 0;
    entry.recomputes = 0;
  }
}

void Executable::enable_profile(bool on) const { impl_->profiling.store(on); }

}  // namespace plimsoll::executor
