// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/executable.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "runtime/base/float_environment.h"
#include "runtime/device/communicator.h"
#include "runtime/executor/graph_runs.h"
#include "runtime/executor/resolved_plan.h"
#include "runtime/executor/run.h"
#include "runtime/executor/transfers.h"
#include "runtime/planner/check/check.h"
#include "runtime/planner/cost/cache_misses.h"
#include "runtime/planner/plan_summary.h"
#include "runtime/program/machine.h"

namespace plimsoll::executor {

// Bytes that caches miss a launch, of first executions and of later ones.
struct MissedBytes {
  double first = 0, again = 0;
};

struct Executable::Impl {
  Resolution resolution;
  const ResidentConstants* resident = nullptr;  // null: there are no constants
  memory::ArenaParts arena_parts;
  std::int64_t encoded_bytes = 0;                      // by a run
  std::vector<int> output_parameter;                   // per result leaf
  std::vector<planner::ParameterResidency> residency;  // per parameter leaf
  std::atomic<bool> profiling{false};
  std::atomic<bool> joint_launches{true};
  std::mutex profile_mutex;  // guards resolution.measurements
  std::atomic<bool> sampling{false};
  std::atomic<std::uint32_t> runs{0};
  RunTimes times;
  std::atomic<std::int64_t> fail_launch{0};
  bool may_be_graph = false;
  GraphRuns graphs;
  std::once_flag missed_once;
  std::vector<MissedBytes> missed;  // per measurement; filled at the first sample
};

namespace {

using Clock = std::chrono::steady_clock;

// While it is there, the run's stop ends waits for other participants, too; when it goes, what the
// run has begun with them is over.
class Meetings {
 public:
  explicit Meetings(const RunOptions& options) : communicator_(options.communicator) {
    if (communicator_ != nullptr) communicator_->set_stop(&options.stop);
  }
  ~Meetings() {
    if (communicator_ == nullptr) return;
    communicator_->forget();
    communicator_->set_stop(nullptr);
  }
  Meetings(const Meetings&) = delete;
  Meetings& operator=(const Meetings&) = delete;

 private:
  device::Communicator* const communicator_;
};

// Which runs' launches are timed: 1 to 4 (the first one compiles and touches fresh memory), then
// 8, 16, 32, then every 64th. Taking times makes a run a little slower; one in
// 64 costs nothing that can be measured and still notices when the machine changes.
bool is_sampled(std::uint32_t run) {
  constexpr std::uint32_t kFirst = 5, kPeriod = 64;
  if (run < kFirst) return run > 0;
  return (run < kPeriod ? (run & (run - 1)) == 0 : run % kPeriod == 0);
}

// Rounds of a loop that a sample times: enough for what each of its steps takes, while a long loop
// of short steps would be many times as slow launch by launch.
constexpr std::int64_t kSampledRounds = 16;

// A graph keeps each of its launches, in host memory and in the driver.
constexpr std::int64_t kMostOfGraph = 16'384;

// How many steps a run takes that enqueues all of its work at once, the same work every time: it
// reads nothing from the device on its way, and moves nothing to or from the host. More than
// kMostOfGraph where it is not so.
std::int64_t steps_at_once(const ResolvedPlan& plan) {
  std::int64_t steps = 0;
  for (const ResolvedStep& step : plan.steps) {
    switch (step.kind) {
      case planner::StepKind::upload:
      case planner::StepKind::download:
      case planner::StepKind::swap_out:
      case planner::StepKind::swap_in:
      case planner::StepKind::swap_wait:
        return kMostOfGraph + 1;
      default:
        break;
    }
    if (step.callee_count == 0) {
      ++steps;
    } else if (step.opcode == ir::Opcode::call) {
      steps += steps_at_once(*plan.callees[at(step.callees)]);
    } else if (step.rounds >= 0 && step.sliced_count == 0) {
      const std::int64_t of_round = steps_at_once(*plan.callees[at(step.callees) + 1]);
      if (of_round > kMostOfGraph || step.rounds > kMostOfGraph) return kMostOfGraph + 1;
      steps += of_round * step.rounds;
    } else {
      return kMostOfGraph + 1;
    }
    if (steps > kMostOfGraph) break;
  }
  return steps;
}

const ir::Shape& leaf_shape(const Measurement& of) {
  return *ir::leaves(of.instruction->shape())[at(of.leaf)];
}

// What can be made where it is wanted takes no memory beside that.
Status upload_constants(const Resolution& resolution, std::byte* to, bool is_host_memory,
                        device::Stream& stream) {
  for (const Constant& constant : resolution.constants) {
    if (is_host_memory && constant.literal->deferred_bytes() != nullptr) {
      constant.literal->copy_to(
          {to + constant.offset, static_cast<std::size_t>(constant.literal->shape().byte_size())});
      continue;
    }
    const auto bytes = constant.literal->bytes();
    PLIMSOLL_RETURN_IF_ERROR(stream.copy(to + constant.offset, bytes.data(),
                                         static_cast<std::int64_t>(bytes.size()),
                                         device::CopyKind::host_to_device));
  }
  return ok_status();
}

std::optional<planner::Link> link_of(const Measurement& what) {
  const bool out = what.kind == planner::StepKind::swap_out;
  if (!out && what.kind != planner::StepKind::swap_in) return std::nullopt;
  return planner::link_of(what.tier, out, what.synchronous);
}

// By the plan's own steps: what callees do within theirs is not followed.
std::vector<MissedBytes> find_missed(const Resolution& resolution, double cache_bytes) {
  std::vector<MissedBytes> missed(resolution.measurements.size());
  const ResolvedPlan& entry = *resolution.plans.front();
  const planner::Plan& plan = *entry.plan;
  const auto bytes = planner::missed_bytes(plan, cache_bytes);
  std::vector<MissedBytes> launches(missed.size());
  for (const planner::StepId t : plan.steps.ids()) {
    if (entry.steps[t].measurement < 0) continue;
    const auto of = at(entry.steps[t].measurement);
    const bool again = plan.steps[t].kind == planner::StepKind::recompute;
    (again ? missed[of].again : missed[of].first) += bytes[t];
    (again ? launches[of].again : launches[of].first) += 1;
  }
  for (std::size_t i = 0; i < missed.size(); ++i) {
    if (launches[i].first > 0) missed[i].first /= launches[i].first;
    if (launches[i].again > 0) missed[i].again /= launches[i].again;
  }
  return missed;
}

// What was measured of kernels and transfers, for the program's cost model.
//
// A first execution and a recomputation by the same kernel may find different shares of what they
// read in the caches, so the two are recorded apart, each with the bytes that it misses. `times`
// holds the sums over both: what is left without the recomputations belongs to the first ones.
// Example: 3 launches in 10 ms, 1 of them a recomputation in 2 ms: 2 of 4 ms and 1 of 2 ms. Where a
// transfer ran beside them, the share of the processor that it takes is not theirs, and is taken
// off first; what is left counts only where nothing was measured without one.
void record_costs(const Program& program, const Resolution& resolution,
                  const std::vector<MissedBytes>& missed, const std::vector<MeasuredTime>& times,
                  double compute_share) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].launches == 0) continue;
    const Measurement& what = resolution.measurements[i];
    const double seconds = times[i].seconds / static_cast<double>(times[i].launches);
    if (what.codes) continue;
    if (what.kind == planner::StepKind::compute) {
      const std::int64_t again = times[i].recomputes, first = times[i].launches - again;
      const auto record = [&](double total, std::int64_t launches, double bytes, bool disturbed) {
        if (launches == 0) return;
        program.costs().record(*what.instruction, total / static_cast<double>(launches), launches,
                               bytes, disturbed);
      };
      // As if no transfer had taken anything from them.
      const double total = times[i].seconds - compute_share * times[i].beside_transfers;
      const double later =
          times[i].recompute_seconds - compute_share * times[i].recompute_beside_transfers;
      const double beside_later = times[i].recompute_beside_transfers;
      record(std::max(total - later, 0.0), first, missed[i].first,
             times[i].beside_transfers > beside_later);
      record(std::max(later, 0.0), again, missed[i].again, beside_later > 0);
    } else if (what.codec.kind != ir::CodecKind::none) {
      program.costs().record_codec(what.codec, leaf_shape(what),
                                   what.kind == planner::StepKind::encode, seconds);
    } else if (const auto link = link_of(what)) {
      const double total = what.synchronous ? times[i].seconds : times[i].transfer_seconds;
      // Read on one side, written on the other.
      program.costs().record_transfer(
          *link, what.bytes / 2, total / static_cast<double>(times[i].launches), times[i].launches);
    }
  }
  program.costs().finish_run();
}

// Per parameter leaf, what the plan was made for.
std::vector<planner::ParameterResidency> residency_of(const ir::Module& module,
                                                      const planner::Plan& plan) {
  std::size_t leaves = 0;
  for (const ir::Instruction* parameter : module.entry()->parameters()) {
    leaves += at(ir::leaf_count(parameter->shape()));
  }
  std::vector<planner::ParameterResidency> residency(leaves, planner::ParameterResidency::resident);
  for (const planner::Buffer& buffer : plan.buffers) {
    if (buffer.placement != planner::Placement::parameter) continue;
    planner::ParameterResidency& of = residency[at(buffer.index)];
    if (buffer.host) of = planner::ParameterResidency::host;
    if (buffer.donated) of = planner::ParameterResidency::donated;
  }
  return residency;
}

}  // namespace

Result<std::shared_ptr<const Executable>> Executable::create(ProgramPlan made) {
#ifndef NDEBUG
  PLIMSOLL_RETURN_IF_ERROR(planner::check_plan(made.program->module(), *made.plan));
#endif
  auto executable = std::make_shared<Executable>(std::move(made), std::make_unique<Impl>());
  Impl& impl = *executable->impl_;
  PLIMSOLL_ASSIGN_OR_RETURN(impl.resolution, resolve(*executable->program_, *executable->plan_));
  if (!impl.resolution.constants.empty()) {
    std::vector<const ir::Literal*> constants;
    for (const Constant& constant : impl.resolution.constants)
      constants.push_back(constant.literal);
    impl.resident = &executable->program_->resident(constants);
  }
  impl.residency = residency_of(executable->program_->module(), *executable->plan_);
  const planner::ArenaBytes arena = planner::arena_at_peak(*executable->plan_);
  impl.arena_parts = {arena.workspaces, arena.encoded, arena.staging};
  impl.encoded_bytes = planner::encoded_bytes(*executable->plan_);
  impl.joint_launches = executable->program_->options().joint_launches;
  impl.may_be_graph = steps_at_once(*impl.resolution.plans.front()) <= kMostOfGraph;
  for (const planner::BufferId id : executable->plan_->results) {
    int parameter = -1;
    if (id >= 0) {
      const planner::Buffer& buffer = executable->plan_->buffers[id];
      if (buffer.placement == planner::Placement::parameter) parameter = buffer.index;
    }
    impl.output_parameter.push_back(parameter);
  }
  return std::shared_ptr<const Executable>(std::move(executable));
}

Executable::Executable(ProgramPlan made, std::unique_ptr<Impl> impl)
    : program_(std::move(made.program)), plan_(std::move(made.plan)), impl_(std::move(impl)) {}

Executable::~Executable() = default;

Result<std::shared_ptr<const Executable>> make_executable(std::shared_ptr<const Program> program,
                                                          const planner::PlanPolicy& policy,
                                                          const planner::Question& question,
                                                          const memory::Budget& budget) {
  const FloatEnvironment floats;
  for (int plans = 1;; ++plans) {
    planner::Question now = question;
    now.limit_bytes = std::min(now.limit_bytes, budget.limit());
    PLIMSOLL_ASSIGN_OR_RETURN(ProgramPlan made,
                              plan_within(program, {policy, machine_of(budget.tiers()), now}));
    PLIMSOLL_ASSIGN_OR_RETURN(auto executable, Executable::create(std::move(made)));
    if (plans == kMostFirstPlans || executable->plan().peak_bytes <= budget.limit())
      return executable;
  }
}

planner::ParameterResidency Executable::residency(int leaf) const {
  return impl_->residency[at(leaf)];
}

bool Executable::is_result_on_host(int leaf) const {
  const planner::BufferId result = plan_->results[at(leaf)];
  return result >= 0 && plan_->buffers[result].host;
}

int Executable::output_parameter(int leaf) const { return impl_->output_parameter[at(leaf)]; }

// All memory is taken before the first step, so that a shortage leaves every buffer as it was and
// the run may be tried again. Once something has been enqueued, the function waits for it on every
// path, as kernels and transfers go on using the arena until then. Constants that the budget still
// holds from an earlier run need no upload; they are noted as content only after a run that has
// succeeded.
Status Executable::run(device::Stream& stream, memory::Budget& budget, const Arguments& arguments,
                       const RunOptions& options) const {
  const FloatEnvironment floats;
  const std::string& name = plan_->computation->module()->name();
  const auto allocate = [&](std::int64_t bytes, memory::Tag tag, const std::string& what,
                            const memory::ArenaParts& parts, memory::ContentKey key) {
    return options.admitted == nullptr
               ? budget.allocate(bytes, tag, what, parts, key)
               : options.admitted->reservation().allocate(bytes, tag, what, parts, key);
  };
  PLIMSOLL_ASSIGN_OR_RETURN(
      memory::Allocation constants,
      allocate(impl_->resolution.constant_bytes, memory::Tag::constants, "constants of " + name, {},
               impl_->resident == nullptr ? nullptr : impl_->resident->key()));
  PLIMSOLL_ASSIGN_OR_RETURN(const memory::Allocation arena,
                            allocate(plan_->arena_bytes, memory::Tag::arena,
                                     "temporaries of " + name, impl_->arena_parts, nullptr));
  PLIMSOLL_ASSIGN_OR_RETURN(const TierBlocks blocks, take_blocks(budget.tiers(), *plan_));
  if (options.admitted != nullptr) options.admitted->have_taken_tiers();
  auto* constant_base = static_cast<std::byte*>(constants.data());
  const bool profiling = impl_->profiling.load(std::memory_order_relaxed);
  const bool sampled = impl_->sampling.load(std::memory_order_relaxed) &&
                       is_sampled(impl_->runs.fetch_add(1, std::memory_order_relaxed));
  // What participants wait for each other is told only step by step.
  const Timed timed = profiling                         ? Timed::steps
                      : !sampled                        ? Timed::nothing
                      : options.communicator == nullptr ? Timed::launches
                                                        : Timed::steps;
  const Observation observation{
      timed,
      profiling ? std::numeric_limits<std::int64_t>::max() : kSampledRounds,
      impl_->joint_launches.load(),
      impl_->fail_launch.exchange(0),
      &options.stop,
      options.waited_seconds};
  const bool is_timed =
      impl_->times.is_on() && !observation.takes_times() && options.communicator == nullptr;
  const auto begin = is_timed ? Clock::now() : Clock::time_point();
  stream.set_communicator(options.communicator);
  const Meetings meetings(options);
  // The engines' transfers are timed.
  const bool by_streams = !budget.device().is_host_memory() && !observation.takes_times();
  Transfers transfers(budget.device(), stream, budget.tiers(), blocks, by_streams);
  Run run(budget.device(), stream, constant_base, transfers, observation,
          impl_->resolution.measurements.size());
  Status status = constants.holds_content()
                      ? ok_status()
                      : upload_constants(impl_->resolution, constant_base,
                                         budget.device().is_host_memory(), stream);
  if (status.ok()) status = run.open();
  const Base base{static_cast<std::byte*>(arena.data())};
  const auto enqueue = [&] {
    return run.run_plan(*impl_->resolution.plans.front(), base, arguments.parameters,
                        arguments.outputs);
  };
  std::optional<GraphRuns::Lease> lease;
  if (impl_->may_be_graph && stream.can_capture() && !observation.takes_times() &&
      observation.fail_launch == 0 && options.communicator == nullptr) {
    GraphRuns::Addresses addresses{constant_base, base.arena};
    addresses.insert(addresses.end(), arguments.parameters.begin(), arguments.parameters.end());
    addresses.insert(addresses.end(), arguments.outputs.begin(), arguments.outputs.end());
    lease.emplace(impl_->graphs, std::move(addresses));
  }
  if (status.ok()) status = options.stop.check();
  if (status.ok()) status = lease ? lease->run(stream, enqueue) : enqueue();
  const Status moved = transfers.wait_all();
  Status finished = stream.synchronize();
  if (finished.ok()) finished = moved;
  if (!status.ok()) {
    const bool stopped =
        status.code() == StatusCode::cancelled || status.code() == StatusCode::deadline_exceeded;
    return stopped ? status.with_context("running " + name) : status;
  }
  PLIMSOLL_RETURN_IF_ERROR(finished);
  if (is_timed) impl_->times.record(std::chrono::duration<double>(Clock::now() - begin).count());
  budget.count_remedies(plan_->recomputed_bytes, impl_->encoded_bytes);
  if (impl_->resident != nullptr) {
    if (!constants.holds_content()) impl_->resident->note(budget);
    constants.keep();
  }
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<MeasuredTime> measured, run.measured());
  if (sampled) {
    std::call_once(impl_->missed_once, [&] {
      impl_->missed = find_missed(impl_->resolution, program_->costs().cache().bytes);
    });
    memory::Tier* const host = budget.tiers().host.get();
    record_costs(*program_, impl_->resolution, impl_->missed, measured,
                 host == nullptr ? 0 : describe(*host).compute_share);
  }
  if (profiling) {
    const std::lock_guard lock(impl_->profile_mutex);
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const MeasuredTime& from = measured[i];
      Measurement& to = impl_->resolution.measurements[i];
      to.seconds += from.seconds;
      to.recompute_seconds += from.recompute_seconds;
      to.transfer_seconds += from.transfer_seconds;
      to.launches += from.launches;
      to.recomputes += from.recomputes;
    }
  }
  return ok_status();
}

std::vector<Measurement> Executable::measurements() const {
  const std::lock_guard lock(impl_->profile_mutex);
  std::vector<Measurement> list = impl_->resolution.measurements;
  for (Measurement& entry : list) entry.bytes *= static_cast<double>(entry.launches);
  return list;
}

// By name, in the order in which names come up in the plan.
std::vector<ProfileEntry> Executable::profile() const {
  std::vector<ProfileEntry> entries;
  std::unordered_map<std::string, std::size_t> index;
  for (const Measurement& from : measurements()) {
    const auto [it, inserted] = index.emplace(from.name, entries.size());
    if (inserted) {
      entries.push_back(from);
      continue;
    }
    ProfileEntry& to = entries[it->second];
    to.seconds += from.seconds;
    to.recompute_seconds += from.recompute_seconds;
    to.transfer_seconds += from.transfer_seconds;
    to.bytes += from.bytes;
    to.launches += from.launches;
    to.recomputes += from.recomputes;
  }
  return entries;
}

void Executable::clear_profile() const {
  const std::lock_guard lock(impl_->profile_mutex);
  for (Measurement& entry : impl_->resolution.measurements) {
    entry.seconds = entry.recompute_seconds = entry.transfer_seconds = 0;
    entry.launches = entry.recomputes = 0;
  }
}

void Executable::enable_profile(bool on) const { impl_->profiling.store(on); }
void Executable::enable_sampling(bool on) const { impl_->sampling.store(on); }
void Executable::enable_joint_launches(bool on) const { impl_->joint_launches.store(on); }
RunTimes& Executable::run_times() const { return impl_->times; }
LaunchCounts Executable::launches() const { return impl_->resolution.launches; }

std::int64_t Executable::graph_runs() const { return impl_->graphs.launches(); }
void Executable::fail_launch(std::int64_t n) const { impl_->fail_launch.store(n); }

}  // namespace plimsoll::executor
