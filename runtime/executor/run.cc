// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/run.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>

namespace plimsoll::executor {

using planner::BufferId;
using planner::Placement;
using planner::StepKind;

Run::Scalars::~Scalars() {
  for (void* const scalar : all) device.deallocate(scalar, device::kBufferAlignment);
}

Result<void*> Run::take_scalar() {
  if (scalars_.free.empty()) {
    PLIMSOLL_ASSIGN_OR_RETURN(void* const made, device_.allocate(device::kBufferAlignment));
    scalars_.all.push_back(made);
    return made;
  }
  void* const found = scalars_.free.back();
  scalars_.free.pop_back();
  return found;
}

Status Run::read(void* to, const void* from, std::int64_t bytes) {
  PLIMSOLL_RETURN_IF_ERROR(stream_.copy(to, from, bytes, device::CopyKind::device_to_host));
  return stream_.synchronize();
}

template <typename Body>
Status Run::timed(Body&& body) {
  if (observation_.waited_seconds == nullptr) return body();
  const auto start = std::chrono::steady_clock::now();
  Status status = body();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  *observation_.waited_seconds += took.count();
  return status;
}

// A plan's offsets are relative: what it calls "the arena" is, in a callee, the workspace that its
// caller's plan has set aside for it, and parameters and outputs are its caller's buffers. So one
// resolved plan serves every place that it is called from, and its addresses are worked out anew
// for each run of it, in a pass over its buffers.
//
// Runs whose every step is timed launch step by step in the plan's order, others by launches in
// theirs; both orders respect the same dependences (launch_order.h), so the bits are the same.
Status Run::run_plan(const ResolvedPlan& plan, const Base& base, std::span<void* const> parameters,
                     std::span<void* const> outputs, IdVector<BufferId, void*>* addresses_out) {
  const auto& buffers = plan.plan->buffers;
  Frame frame{base, IdVector<BufferId, void*>(buffers.size())};
  for (const BufferId id : buffers.ids()) {
    const planner::Buffer& buffer = buffers[id];
    void*& address = frame.addresses[id];
    switch (buffer.placement) {
      case Placement::arena:
        address = base.arena + buffer.offset;
        break;
      case Placement::parameter:
        address = parameters[at(buffer.index)];
        break;
      case Placement::output:
        address = outputs[at(buffer.index)];
        break;
      case Placement::lent:
        address = static_cast<std::byte*>(outputs[at(buffer.index)]) + buffer.offset;
        break;
      case Placement::constant:
        address =
            const_cast<std::byte*>(buffer.host ? buffer.source->attributes().literal->bytes().data()
                                               : constants_ + plan.constant_offsets[id]);
        break;
      default:  // on a tier
        break;
    }
  }
  if (observation_.timed == Timed::steps || !observation_.joint_launches) {
    for (const ResolvedStep& step : plan.steps) {
      PLIMSOLL_RETURN_IF_ERROR(check_stop());
      PLIMSOLL_RETURN_IF_ERROR(observe_step(plan, step, frame));
    }
  } else {
    const std::int64_t before = communication_.begun();
    // As the communication thread counts them: computations that are called begin some, too.
    std::vector<std::int64_t> begun;
    for (const ResolvedLaunch& launch : plan.launches) {
      PLIMSOLL_RETURN_IF_ERROR(check_stop());
      if (launch.meets && !launch.goes_on) {
        PLIMSOLL_RETURN_IF_ERROR(timed([&]() -> Status {
          PLIMSOLL_RETURN_IF_ERROR(communication_.wait(communication_.begun()));
          return run_launch(plan, launch, frame);
        }));
        continue;
      }
      if (launch.waits > 0) {
        PLIMSOLL_RETURN_IF_ERROR(
            timed([&] { return communication_.wait(begun[at(launch.waits - 1)]); }));
      }
      PLIMSOLL_RETURN_IF_ERROR(observe_launch(plan, launch, frame));
      if (launch.goes_on) begun.push_back(communication_.begun());
    }
    // The caller knows nothing of what went on in here.
    if (communication_.begun() != before) {
      PLIMSOLL_RETURN_IF_ERROR(timed([&] { return communication_.wait(communication_.begun()); }));
    }
  }
  if (addresses_out != nullptr) *addresses_out = std::move(frame.addresses);
  return ok_status();
}

Status Run::run_launch(const ResolvedPlan& plan, const ResolvedLaunch& launch, const Frame& frame) {
  if (launch.joint >= 0) return run_joint(plan, launch, frame);
  const ResolvedStep& alone = plan.steps[plan.launch_steps[at(launch.steps)]];
  return launch.goes_on ? begin_beside(plan, alone, frame) : run_step(plan, alone, frame);
}

Status Run::begin_beside(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame) {
  PLIMSOLL_RETURN_IF_ERROR(count_launch(step));
  collectives::CommunicationThread::Launch launch;
  launch.kernel = step.kernel;
  for (int i = 0; i < step.input_count; ++i) {
    launch.inputs.push_back(frame.address(plan.ids[at(step.inputs + i)]));
  }
  for (int i = 0; i < step.output_count; ++i) {
    launch.outputs.push_back(frame.address(plan.ids[at(step.outputs + i)]));
  }
  launch.workspace = frame.address(step.workspace);
  launch.name = step.instruction->name();
  return communication_.begin(stream_, std::move(launch));
}

Status Run::count_launch(const ResolvedStep& step) {
  if (observation_.fail_launch == 0 || --observation_.fail_launch > 0) return ok_status();
  return unavailable("launching '" + step.kernel->name() + "' for '" + step.instruction->name() +
                     "': failure injected by the test hook");
}

// The joint kernel takes its parts' buffers one part after the other, in the order in which the
// parts were joined (Resolver::join_launches).
Status Run::run_joint(const ResolvedPlan& plan, const ResolvedLaunch& launch, const Frame& frame) {
  const device::JointLaunch& joint = *plan.joint_launches[at(launch.joint)];
  inputs_.resize(joint.input_count());
  outputs_.resize(joint.output_count());
  workspaces_.resize(at(launch.step_count));
  std::size_t input = 0, output = 0;
  for (std::size_t part = 0; part < workspaces_.size(); ++part) {
    const ResolvedStep& step = plan.steps[plan.launch_steps[at(launch.steps) + part]];
    PLIMSOLL_RETURN_IF_ERROR(count_launch(step));
    const BufferId* id = plan.ids.data() + step.inputs;
    for (int i = 0; i < step.input_count; ++i) inputs_[input++] = frame.address(*id++);
    id = plan.ids.data() + step.outputs;
    for (int i = 0; i < step.output_count; ++i) outputs_[output++] = frame.address(*id++);
    workspaces_[part] = frame.address(step.workspace);
  }
  return stream_.launch(joint, inputs_, outputs_, workspaces_);
}

// Of a joint launch each step has the share that its price is of all, so that together they cost
// what they take together.
Status Run::observe_launch(const ResolvedPlan& plan, const ResolvedLaunch& launch,
                           const Frame& frame) {
  if (measured_.empty() || launch.goes_on) return run_launch(plan, launch, frame);
  if (launch.joint < 0) {
    return observe_step(plan, plan.steps[plan.launch_steps[at(launch.steps)]], frame);
  }
  PLIMSOLL_RETURN_IF_ERROR(times_.begin());
  PLIMSOLL_RETURN_IF_ERROR(run_launch(plan, launch, frame));
  parts_.clear();
  for (std::int32_t i = 0; i < launch.step_count; ++i) {
    const ResolvedStep& step = plan.steps[plan.launch_steps[at(launch.steps + i)]];
    parts_.push_back(count_timed(step));
    parts_.back().share = step.seconds;
  }
  return times_.end(parts_);
}

Status Run::observe_step(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame) {
  if (measured_.empty() || step.measurement < 0) return run_step(plan, step, frame);
  PLIMSOLL_RETURN_IF_ERROR(times_.begin());
  PLIMSOLL_RETURN_IF_ERROR(run_step(plan, step, frame));
  return times_.end(count_timed(step));
}

StreamTimes::Span Run::count_timed(const ResolvedStep& step) {
  StreamTimes::Span span;
  span.measurement = step.measurement;
  span.again = step.kind == StepKind::recompute;
  span.kernel = step.kernel != nullptr;
  if (step.kind == StepKind::swap_wait) return span;  // a part of what it waits for
  MeasuredTime& time = measured_[at(step.measurement)];
  ++time.launches;
  if (span.again) ++time.recomputes;
  return span;
}

// A kernel that runs beside a transfer takes longer than alone, on a host whose copies take a
// processor. The time that they overlapped is kept with the kernel's, and taken off what the cost
// model learns.
Result<std::vector<MeasuredTime>> Run::measured() {
  if (measured_.empty()) return std::vector<MeasuredTime>();
  PLIMSOLL_ASSIGN_OR_RETURN(const std::vector<StreamTimes::Span> steps, times_.spans());
  std::sort(copies_.begin(), copies_.end(),
            [](const auto& a, const auto& b) { return a.start < b.start; });
  // Steps ran one after the other; copies may be two at a time, each beside a few of them. Both are
  // gone through by their starts, so that copies that ended before a step are passed over once.
  // Example: a step over [2, 5] and copies over [1, 3] and [4, 9] overlap for 1 + 1 seconds.
  std::size_t first = 0;
  for (const StreamTimes::Span& step : steps) {
    MeasuredTime& time = measured_[at(step.measurement)];
    time.seconds += step.end - step.start;
    if (step.again) time.recompute_seconds += step.end - step.start;
    if (!step.kernel) continue;
    while (first < copies_.size() && copies_[first].end <= step.start) ++first;
    double seconds = 0;
    for (std::size_t i = first; i < copies_.size() && copies_[i].start < step.end; ++i) {
      seconds += std::max(
          0.0, std::min(copies_[i].end, step.end) - std::max(copies_[i].start, step.start));
    }
    time.beside_transfers += seconds;
    if (step.again) time.recompute_beside_transfers += seconds;
  }
  copies_.clear();
  return std::move(measured_);
}

Status Run::run_step(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame) {
  if (step.kind == StepKind::free) return ok_status();
  constexpr int kInline = 32;
  void* inline_pointers[kInline];
  std::vector<void*> heap_pointers;
  const int total = step.input_count + step.output_count;
  void** pointers = inline_pointers;
  if (total > kInline) {
    heap_pointers.resize(at(total));
    pointers = heap_pointers.data();
  }
  for (int i = 0; i < step.input_count; ++i) {
    pointers[i] = frame.address(plan.ids[at(step.inputs + i)]);
  }
  for (int i = 0; i < step.output_count; ++i) {
    pointers[step.input_count + i] = frame.address(plan.ids[at(step.outputs + i)]);
  }
  const std::span<void* const> inputs(pointers, at(step.input_count));
  const std::span<void* const> outputs(pointers + step.input_count, at(step.output_count));
  void* workspace = frame.address(step.workspace);
  if (step.kind == StepKind::copy || step.kind == StepKind::upload ||
      step.kind == StepKind::download) {
    const bool upload = step.kind == StepKind::upload;
    const BufferId id = plan.ids[at(upload ? step.inputs : step.outputs)];
    return stream_.copy(outputs[0], inputs[0], plan.bytes[id],
                        upload                            ? device::CopyKind::host_to_device
                        : step.kind == StepKind::download ? device::CopyKind::device_to_host
                                                          : device::CopyKind::device_to_device);
  }
  if (step.kernel != nullptr) {
    PLIMSOLL_RETURN_IF_ERROR(count_launch(step));
    const device::KernelArguments arguments{
        std::span<const void* const>(const_cast<const void* const*>(pointers), inputs.size()),
        outputs, workspace};
    Status status = stream_.launch(*step.kernel, arguments);
    return status.ok() ? status : status.with_context("'" + step.instruction->name() + "'");
  }
  switch (step.kind) {
    case StepKind::swap_out:
    case StepKind::swap_in:
      return start_transfer(plan, step, frame);
    case StepKind::swap_wait:
      return step.synchronous ? ok_status() : end_transfer(plan, step);
    default:
      break;
  }
  const auto offset = [&](BufferId id) { return id < 0 ? 0 : plan.plan->buffers[id].offset; };
  Base base{static_cast<std::byte*>(workspace), frame.base.tiers};
  for (const MemorySpace tier : kTiers) base.tiers[tier] += offset(step.tier_workspaces[tier]);
  switch (step.opcode) {
    case ir::Opcode::call:
      return run_plan(*plan.callees[at(step.callees)], base, inputs, outputs);
    case ir::Opcode::while_:
      return run_while(plan, step, inputs, outputs, base, frame);
    case ir::Opcode::conditional:
      return run_conditional(plan, step, inputs, outputs, base);
    default:
      return internal_error("no way to run '" + step.instruction->name() + "'");
  }
}

Status Run::start_transfer(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame) {
  const bool out = step.kind == StepKind::swap_out;
  const BufferId input = plan.ids[at(step.inputs)], output = plan.ids[at(step.outputs)];
  const planner::Buffer& far = plan.plan->buffers[out ? output : input];
  const MemorySpace tier = space_of(far.placement);
  const Status status =
      transfers_.start(&step, out, tier, frame.base.tiers[tier] + far.offset,
                       frame.addresses[out ? input : output], plan.bytes[output], step.synchronous);
  return status.ok() ? status : status.with_context("'" + step.instruction->name() + "'");
}

Status Run::end_transfer(const ResolvedPlan& plan, const ResolvedStep& step) {
  const ResolvedStep& start = plan.steps[step.transfer];
  double seconds = 0;
  std::chrono::steady_clock::time_point started;
  const Status status = transfers_.wait(&start, &seconds, &started);
  if (!measured_.empty() && step.measurement >= 0) {
    const double start = times_.since_origin(started);
    copies_.push_back({start, start + seconds});
    measured_[at(step.measurement)].transfer_seconds += seconds;
  }
  return status.ok() ? status : status.with_context("'" + start.instruction->name() + "'");
}

LoopWindows Run::open_windows(const ResolvedPlan& plan, const ResolvedStep& step,
                              const Frame& frame) {
  const std::span<const ResolvedSlicedState> states(plan.sliced.data() + step.sliced,
                                                    at(step.sliced_count));
  std::vector<LoopWindows::Place> places;
  for (const ResolvedSlicedState& of : states) {
    const BufferId home = plan.ids[at(step.outputs + of.state.leaf)];
    const planner::Buffer& residual = plan.plan->buffers[home];
    const MemorySpace tier = space_of(residual.placement);
    places.push_back({static_cast<std::byte*>(frame.address(of.state.window)), tier,
                      frame.base.tiers[tier] + residual.offset});
  }
  return LoopWindows(states, std::move(places), transfers_, times_, measured_);
}

// The loop's state lies in the step's outputs from the first round to the last. The body's plan
// reads it there, and writes the next state there too where the planner could let it; what it had
// to write elsewhere (the old value was still read) is copied back after the round. So a loop needs
// one state and, at most, a second copy of what is not updated in place.
//
// A loop whose rounds are counted asks no condition, so that all of it is enqueued at once. One
// that has a sequence is one launch (loop_sequence.h), but for the rounds that are timed.
//
// Residuals on another tier pass through windows: before a round its slice must have come in, and
// what it has written goes out while the next round runs (loop_windows.h).
Status Run::run_while(const ResolvedPlan& plan, const ResolvedStep& step,
                      std::span<void* const> inputs, std::span<void* const> outputs,
                      const Base& base, const Frame& frame) {
  const ResolvedPlan& condition = *plan.callees[at(step.callees)];
  const ResolvedPlan& body = *plan.callees[at(step.callees) + 1];
  for (int i = 0; i < step.output_count; ++i) {
    const auto leaf = at(i);
    const BufferId id = plan.ids[at(step.outputs + i)];
    // What has no address lies on another tier.
    if (id < 0 || outputs[leaf] == nullptr || inputs[leaf] == outputs[leaf]) continue;
    PLIMSOLL_RETURN_IF_ERROR(copy(outputs[leaf], inputs[leaf], plan.bytes[id]));
  }
  std::int64_t walked = std::numeric_limits<std::int64_t>::max();  // rounds
  if (step.sequence != nullptr && observation_.joint_launches && observation_.fail_launch == 0) {
    walked = observation_.takes_times() ? observation_.timed_rounds : 0;
  }
  if (walked == 0) return run_sequence(*step.sequence, outputs, base, 0);
  LoopWindows windows = open_windows(plan, step, frame);
  std::vector<void*> state(outputs.begin(), outputs.end());
  IdVector<BufferId, void*> addresses;
  void* predicate = nullptr;
  if (step.rounds < 0) {
    PLIMSOLL_ASSIGN_OR_RETURN(predicate, take_scalar());
  }
  const auto goes_on = [&](std::int64_t round) -> Result<bool> {
    if (step.rounds >= 0) return round < step.rounds;
    PLIMSOLL_RETURN_IF_ERROR(run_plan(condition, base, state, std::span(&predicate, 1)));
    std::byte says{};
    PLIMSOLL_RETURN_IF_ERROR(read(&says, predicate, 1));
    return says != std::byte{0};
  };
  for (std::int64_t round = 0;; ++round) {
    if (round == walked) {
      PLIMSOLL_RETURN_IF_ERROR(run_sequence(*step.sequence, outputs, base, round));
      break;
    }
    PLIMSOLL_ASSIGN_OR_RETURN(const bool another, goes_on(round));
    if (!another) break;
    PLIMSOLL_RETURN_IF_ERROR(windows.begin_round(state));
    PLIMSOLL_RETURN_IF_ERROR(run_plan(body, base, state, {}, &addresses));
    PLIMSOLL_RETURN_IF_ERROR(windows.end_round());
    for (std::size_t leaf = 0; leaf < body.plan->results.size(); ++leaf) {
      const BufferId result = body.plan->results[leaf];
      if (result < 0) continue;
      if (addresses[result] == state[leaf]) continue;
      PLIMSOLL_RETURN_IF_ERROR(copy(state[leaf], addresses[result], body.bytes[result]));
    }
  }
  if (predicate != nullptr) give_back_scalar(predicate);
  return windows.finish();
}

Status Run::run_sequence(const LoopSequence& sequence, std::span<void* const> state,
                         const Base& base, std::int64_t first_round) {
  std::vector<void*> predicates;
  for (std::int32_t i = 0; i < sequence.predicates; ++i) {
    PLIMSOLL_ASSIGN_OR_RETURN(void* const predicate, take_scalar());
    predicates.push_back(predicate);
  }
  std::vector<void*> addresses;
  addresses.reserve(sequence.places.size());
  for (const LoopPlace& place : sequence.places) {
    const std::byte* root = nullptr;
    switch (place.root) {
      case LoopPlace::Root::none:
        break;
      case LoopPlace::Root::state:
        root = static_cast<const std::byte*>(state[at(place.index)]);
        break;
      case LoopPlace::Root::arena:
        root = base.arena;
        break;
      case LoopPlace::Root::constants:
        root = constants_;
        break;
      case LoopPlace::Root::literal:
        root = place.host;
        break;
      case LoopPlace::Root::predicate:
        root = static_cast<const std::byte*>(predicates[at(place.index)]);
        break;
    }
    addresses.push_back(const_cast<std::byte*>(root + place.offset));
  }
  PLIMSOLL_RETURN_IF_ERROR(
      sequence.launch->run(stream_, addresses, first_round, observation_.stop));
  for (void* const predicate : predicates) give_back_scalar(predicate);
  return ok_status();
}

// An index that names no branch runs the last one, as HLO has it. Inputs are the leaves of the
// predicate, then those of each branch's argument, one behind the other: branch 2's begin behind
// the predicate and the arguments 0 and 1. What a result takes the place of lies in the result from
// the start, as a loop's state does.
Status Run::run_conditional(const ResolvedPlan& plan, const ResolvedStep& step,
                            std::span<void* const> inputs, std::span<void* const> outputs,
                            const Base& base) {
  int branch = 0;
  if (step.instruction->operand(0)->shape().dtype() == ir::DType::pred) {
    std::uint8_t predicate = 0;
    PLIMSOLL_RETURN_IF_ERROR(read(&predicate, inputs[0], sizeof(predicate)));
    branch = predicate != 0 ? 0 : 1;
  } else {
    std::int32_t index = 0;
    PLIMSOLL_RETURN_IF_ERROR(read(&index, inputs[0], sizeof(index)));
    branch = index < 0 || index >= step.callee_count ? step.callee_count - 1 : index;
  }
  std::size_t first = 1;
  for (int i = 1; i <= branch; ++i) {
    first += at(ir::leaf_count(step.instruction->operand(i)->shape()));
  }
  const auto count = at(ir::leaf_count(step.instruction->operand(branch + 1)->shape()));
  const ResolvedPlan& callee = *plan.callees[at(step.callees + branch)];
  std::vector<void*> parameters(inputs.begin() + static_cast<std::ptrdiff_t>(first),
                                inputs.begin() + static_cast<std::ptrdiff_t>(first + count));
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const int leaf = callee.plan->state_leaf(static_cast<int>(k));
    if (leaf < 0) continue;
    if (parameters[at(leaf)] != outputs[k]) {
      PLIMSOLL_RETURN_IF_ERROR(
          copy(outputs[k], parameters[at(leaf)], callee.bytes[callee.plan->results[k]]));
    }
    parameters[at(leaf)] = outputs[k];
  }
  return run_plan(callee, base, parameters, outputs);
}

}  // namespace plimsoll::executor
