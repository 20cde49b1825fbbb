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
  std::atomic<bool> sampling{false};
  std::atomic<std::uint32_t> runs{0};
};

namespace {

bool is_sampled(std::uint32_t run) {
  constexpr std::uint32_t kFirst = 3, kPeriod = 64;
  return run < kFirst || (run < kPeriod ? (run & (run - 1)) == 0 : run % kPeriod == 0);
}

// Profile entries that are timings of single instructions, for the program's cost model.
void record_costs(const Program& program, const Resolution& resolution,
                  const std::vector<Run::Timing>& timings) {
  for (std::size_t i = 0; i < timings.size(); ++i) {
    if (timings[i].launches == 0) continue;
    program.costs().record(*resolution.timed[i],
                           timings[i].seconds / static_cast<double>(timings[i].launches),
                           timings[i].launches);
  }
  program.costs().finish_run();
}

}  // namespace

Result<std::shared_ptr<const Executable>> Executable::create(std::shared_ptr<const Program> program,
                                                             const planner::PlanOptions& options,
                                                             memory::Budget& budget) {
  planner::PlanOptions limited = options;
  limited.limit_bytes = std::min(options.limit_bytes, budget.limit());
  if (limited.parameters.empty()) {
    limited.parameters = planner::default_residency(program->module());
  }
  PLIMSOLL_ASSIGN_OR_RETURN(std::shared_ptr<const planner::Plan> plan, program->plan(limited));
#ifndef NDEBUG
  PLIMSOLL_RETURN_IF_ERROR(planner::check_plan(program->module(), *plan));
#endif
  auto executable =
      std::make_shared<Executable>(std::move(program), std::move(plan), std::make_unique<Impl>());
  Impl& impl = *executable->impl_;
  PLIMSOLL_ASSIGN_OR_RETURN(impl.resolution, resolve(*executable->program_, *executable->plan_));
  impl.residency = limited.parameters;
  for (const planner::BufferId id : executable->plan_->results) {
    int parameter = -1;
    if (id >= 0) {
      const planner::Buffer& buffer = executable->plan_->buffers[static_cast<std::size_t>(id)];
      if (buffer.placement == planner::Placement::parameter) parameter = buffer.index;
    }
    impl.output_parameter.push_back(parameter);
  }
  return std::shared_ptr<const Executable>(std::move(executable));
}

Executable::Executable(std::shared_ptr<const Program> program,
                       std::shared_ptr<const planner::Plan> plan, std::unique_ptr<Impl> impl)
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
  const std::string& name = plan_->computation->name();
  PLIMSOLL_ASSIGN_OR_RETURN(const memory::Allocation constants,
                            budget.allocate(impl_->resolution.constant_bytes,
                                            memory::Tag::constants, "constants of " + name));
  PLIMSOLL_ASSIGN_OR_RETURN(
      const memory::Allocation arena,
      budget.allocate(plan_->arena_bytes, memory::Tag::arena, "temporaries of " + name));
  auto* constant_base = static_cast<std::byte*>(constants.data());
  for (const Constant& constant : impl_->resolution.constants) {
    const auto bytes = constant.literal->bytes();
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(constant_base + constant.offset, bytes.data(),
                                         static_cast<std::int64_t>(bytes.size()),
                                         device::CopyKind::host_to_device));
  }
  const bool profiling = impl_->profiling.load(std::memory_order_relaxed);
  const bool sampled = impl_->sampling.load(std::memory_order_relaxed) &&
                       is_sampled(impl_->runs.fetch_add(1, std::memory_order_relaxed));
  Run run(stream, constant_base, profiling, impl_->resolution.profile.size(),
          sampled ? impl_->resolution.timed.size() : 0);
  const Status status = run.run_plan(impl_->resolution.entry, static_cast<std::byte*>(arena.data()),
                                     arguments.parameters, arguments.outputs);
  const Status finished = stream.synchronize();
  PLIMSOLL_RETURN_IF_ERROR(status);
  PLIMSOLL_RETURN_IF_ERROR(finished);
  if (sampled) record_costs(*program_, impl_->resolution, run.timings());
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
void Executable::enable_sampling(bool on) const { impl_->sampling.store(on); }

}  // namespace plimsoll::executor
