// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/executable.h"

#include <algorithm>
#include <atomic>

#include "runtime/executor/resolved_plan.h"
#include "runtime/executor/run.h"

namespace plimsoll::executor {

struct Executable::Impl {
  Resolution resolution;
  std::vector<int> output_parameter;                   // per result leaf
  std::vector<planner::ParameterResidency> residency;  // per parameter leaf
  std::atomic<bool> profiling{false};
  std::mutex profile_mutex;  // guards resolution.profile
};

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
  PLIMSOLL_ASSIGN_OR_RETURN(impl.resolution, resolve(*executable->program_, executable->plan_));
  impl.residency = limited.parameters;
  for (const planner::BufferId id : executable->plan_.results) {
    int parameter = -1;
    if (id >= 0) {
      const planner::Buffer& buffer = executable->plan_.buffers[static_cast<std::size_t>(id)];
      if (buffer.placement == planner::Placement::parameter) parameter = buffer.index;
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
  PLIMSOLL_ASSIGN_OR_RETURN(const memory::Allocation constants,
                            budget.allocate(impl_->resolution.constant_bytes,
                                            memory::Tag::constants, "constants of " + name));
  PLIMSOLL_ASSIGN_OR_RETURN(
      const memory::Allocation arena,
      budget.allocate(plan_.arena_bytes, memory::Tag::arena, "temporaries of " + name));
  auto* constant_base = static_cast<std::byte*>(constants.data());
  for (const Constant& constant : impl_->resolution.constants) {
    const auto bytes = constant.literal->bytes();
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(constant_base + constant.offset, bytes.data(),
                                         static_cast<std::int64_t>(bytes.size()),
                                         device::CopyKind::host_to_device));
  }
  const bool profiling = impl_->profiling.load(std::memory_order_relaxed);
  Run run(stream, constant_base, profiling, impl_->resolution.profile.size());
  const Status status = run.run_plan(impl_->resolution.entry, static_cast<std::byte*>(arena.data()),
                                     arguments.parameters, arguments.outputs);
  const Status finished = stream.synchronize();
  PLIMSOLL_RETURN_IF_ERROR(status);
  PLIMSOLL_RETURN_IF_ERROR(finished);
  if (profiling) {
    const std::lock_guard lock(impl_->profile_mutex);
    for (std::size_t i = 0; i < run.profile().size(); ++i) {
      const ProfileEntry& from = run.profile()[i];
      ProfileEntry& to = impl_->resolution.profile[i];
      to.seconds += from.seconds;
      to.bytes += from.bytes;
      to.launches += from.launches;
      to.recomputes += from.recomputes;
    }
  }
  return ok_status();
}

std::vector<ProfileEntry> Executable::profile() const {
  const std::lock_guard lock(impl_->profile_mutex);
  return impl_->resolution.profile;
}

void Executable::clear_profile() const {
  const std::lock_guard lock(impl_->profile_mutex);
  for (ProfileEntry& entry : impl_->resolution.profile) {
    entry.seconds = 0;
    entry.bytes = 0;
    entry.launches = 0;
    entry.recomputes = 0;
  }
}

void Executable::enable_profile(bool on) const { impl_->profiling.store(on); }

}  // namespace plimsoll::executor
