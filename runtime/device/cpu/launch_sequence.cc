// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/launch_sequence.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/cancellation.h"
#include "runtime/base/index.h"
#include "runtime/device/device.h"
#include "runtime/device/joint_launch.h"

namespace plimsoll::device {
namespace {

using Kind = SequenceStep::Kind;

// So many are copied in less time than a stream takes to be asked.
constexpr std::int64_t kFewBytes = 4096;

// Rounds between two looks at what may stop a run, besides those before longer launches.
constexpr std::int64_t kRoundsPerLook = 64;

// Whether a launch is a piece of work in each phase of a kernel that takes its pointers.
bool is_called(const SequenceText& text, const SequenceStep& step) {
  if (step.kernel == nullptr ||
      !step.kernel->may_join(at(step.input_count), at(step.output_count))) {
    return false;
  }
  const std::vector<KernelPhase> phases = phases_of(text, step);
  return std::all_of(phases.begin(), phases.end(), [](const KernelPhase& phase) {
    return static_cast<double>(phase.units) * phase.unit_seconds <= kPieceSeconds;
  });
}

}  // namespace

struct CpuLaunchSequence::Run {
  Stream& stream;
  const Stop* stop;
  std::vector<const void*> pointers;
  std::int64_t done = 0;  // rounds of the loop that is the first step
  std::int64_t rounds = 0;

  const void* const* inputs(const Step& step) const { return pointers.data() + step.inputs; }
  void* const* outputs(const Step& step) const {
    return const_cast<void* const*>(pointers.data() + step.outputs);
  }
  void* const* workspaces(const Step& step) const {
    return const_cast<void* const*>(pointers.data() + step.workspaces);
  }
};

std::vector<KernelPhase> phases_of(const SequenceText& text, const SequenceStep& step) {
  const auto& kernel = static_cast<const PhasedKernel&>(*step.kernel);  // as it may join
  std::vector<KernelPhase> phases;
  for (const KernelPhase& phase : kernel.phases()) {
    if (phase.unless_input >= 0 &&
        is_in_place(text, step, phase.unless_input, phase.unless_output)) {
      continue;
    }
    phases.push_back(phase);
  }
  return phases;
}

CpuLaunchSequence::CpuLaunchSequence(const SequenceText& text) {
  for (const SequenceStep& step : text.steps) add(text, step);
}

void CpuLaunchSequence::add(const SequenceText& text, const SequenceStep& from) {
  Step step;
  step.of = from;
  const std::int32_t* place = text.places.data() + from.places;
  const auto next = [&] { return static_cast<std::int32_t>(pointers_.size()); };
  const auto put = [&](std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i, ++place) {
      if (*place >= 0) placed_.push_back({next(), *place});
      pointers_.push_back(nullptr);
    }
  };
  step.is_called = is_called(text, from);
  if (from.kind == Kind::joint) {
    step.is_called =
        std::all_of(text.steps.begin() + std::ssize(steps_) + 1, text.steps.begin() + from.end,
                    [&](const SequenceStep& part) { return is_called(text, part); });
  }
  step.inputs = next();
  put(from.input_count);
  step.calls = static_cast<std::int32_t>(calls_.size());
  if (step.is_called && from.kind == Kind::launch) {
    for (const KernelPhase& phase : phases_of(text, from))
      calls_.push_back({phase.run, phase.units});
    const auto tables = static_cast<const PhasedKernel&>(*from.kernel).tables();
    pointers_.insert(pointers_.end(), tables.begin(), tables.end());
  }
  step.calls_end = static_cast<std::int32_t>(calls_.size());
  step.outputs = next();
  put(from.output_count);
  step.workspaces = next();
  put(from.workspace_count);
  steps_.push_back(step);
}

Status CpuLaunchSequence::run(Stream& stream, std::span<void* const> addresses, std::int64_t done,
                              const Stop* stop) const {
  Run run{stream, stop, pointers_, done};
  for (const Placed& placed : placed_)
    run.pointers[at(placed.pointer)] = addresses[at(placed.address)];
  return run_steps(run, 0, static_cast<std::int32_t>(steps_.size()));
}

Status CpuLaunchSequence::run_steps(Run& run, std::int32_t begin, std::int32_t end) const {
  for (std::int32_t i = begin; i < end; ++i) {
    const Step& step = steps_[at(i)];
    Status status;
    switch (step.of.kind) {
      case Kind::launch:
        if (step.is_called) {
          call(run, step);
          continue;
        }
        if (run.stop != nullptr) PLIMSOLL_RETURN_IF_ERROR(run.stop->check());
        status = run.stream.launch(
            *step.of.kernel,
            {std::span(run.inputs(step), at(step.of.input_count)),
             std::span(run.outputs(step), at(step.of.output_count)), *run.workspaces(step)});
        break;
      case Kind::joint:
        if (step.is_called) continue;  // its parts follow
        if (run.stop != nullptr) PLIMSOLL_RETURN_IF_ERROR(run.stop->check());
        status =
            run.stream.launch(*step.of.joint, std::span(run.inputs(step), at(step.of.input_count)),
                              std::span(run.outputs(step), at(step.of.output_count)),
                              std::span(run.workspaces(step), at(step.of.workspace_count)));
        i = step.of.end - 1;
        break;
      case Kind::copy: {
        void* const to = *run.outputs(step);
        const void* const from = *run.inputs(step);
        if (step.of.bytes > kFewBytes) {
          status = run.stream.copy(to, from, step.of.bytes, CopyKind::device_to_device);
          break;
        }
        if (to != from) std::memcpy(to, from, at(step.of.bytes));
        continue;
      }
      case Kind::loop:
        PLIMSOLL_RETURN_IF_ERROR(run_loop(run, i));
        i = step.of.end - 1;
        continue;
      case Kind::branch:
        PLIMSOLL_RETURN_IF_ERROR(run_branch(run, i));
        i = step.of.end - 1;
        continue;
      case Kind::block:
        return internal_error("a sequence's block outside of a branch");
    }
    if (!status.ok()) {
      return step.of.name.empty() ? status
                                  : status.with_context("'" + std::string(step.of.name) + "'");
    }
  }
  return ok_status();
}

void CpuLaunchSequence::call(const Run& run, const Step& step) const {
  const void* const* const inputs = run.inputs(step);
  void* const* const outputs = run.outputs(step);
  for (std::int32_t c = step.calls; c < step.calls_end; ++c) {
    calls_[at(c)].entry(inputs, outputs, *run.workspaces(step), 0, calls_[at(c)].units);
  }
}

Status CpuLaunchSequence::run_loop(Run& run, std::int32_t i) const {
  const SequenceStep& loop = steps_[at(i)].of;
  for (std::int64_t round = i == 0 ? run.done : 0;; ++round) {
    if (run.stop != nullptr && run.rounds++ % kRoundsPerLook == 0) {
      PLIMSOLL_RETURN_IF_ERROR(run.stop->check());
    }
    if (loop.rounds >= 0) {
      if (round >= loop.rounds) return ok_status();
    } else {
      PLIMSOLL_RETURN_IF_ERROR(run_steps(run, i + 1, loop.body));
      if (*static_cast<const char*>(*run.inputs(steps_[at(i)])) == 0) return ok_status();
    }
    PLIMSOLL_RETURN_IF_ERROR(run_steps(run, loop.body, loop.end));
  }
}

Status CpuLaunchSequence::run_branch(Run& run, std::int32_t i) const {
  const SequenceStep& branch = steps_[at(i)].of;
  const void* const decides = *run.inputs(steps_[at(i)]);
  std::int32_t number = 0;
  if (branch.is_pred) {
    number = *static_cast<const char*>(decides) != 0 ? 0 : 1;
  } else {
    std::memcpy(&number, decides, sizeof(number));
  }
  std::int32_t block = i + 1;
  for (std::int32_t k = 0;; ++k) {
    const std::int32_t next = steps_[at(block)].of.end;
    if (k == number || next == branch.end) return run_steps(run, block + 1, next);
    block = next;
  }
}

}  // namespace plimsoll::device
