// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/device/cpu/phased_kernel.h"
#include "runtime/device/launch_sequence.h"

namespace plimsoll::device {

// The phases that a launch of `step`, whose kernel is a phased one, has to run: without those that
// would copy a buffer onto itself.
std::vector<KernelPhase> phases_of(const SequenceText& text, const SequenceStep& step);

// A sequence on the host. A phased kernel whose phases are a piece of work each is nothing but
// calls of their functions, with pointers that are laid out once a run.
class CpuLaunchSequence final : public LaunchSequence {
 public:
  // Kernels and joint launches of `text` must outlive it.
  explicit CpuLaunchSequence(const SequenceText& text);

  Status run(Stream& stream, std::span<void* const> addresses, std::int64_t done,
             const Stop* stop) const override;

 private:
  // Pointers of a step lie in the run's at `inputs` (tables behind them), `outputs`, `workspaces`.
  struct Step {
    // A launch is nothing but calls; of a joint one all parts are, which stand for it then.
    bool is_called = false;
    std::int32_t inputs = 0, outputs = 0, workspaces = 0;
    std::int32_t calls = 0, calls_end = 0;  // of `calls_`
    SequenceStep of;
  };
  // One phase of a kernel.
  struct Call {
    PhaseEntry entry = nullptr;
    std::int64_t units = 0;
  };
  struct Run;
  void call(const Run& run, const Step& step) const;
  void add(const SequenceText& text, const SequenceStep& step);
  Status run_steps(Run& run, std::int32_t begin, std::int32_t end) const;
  Status run_loop(Run& run, std::int32_t at) const;
  Status run_branch(Run& run, std::int32_t at) const;

  std::vector<Step> steps_;
  std::vector<Call> calls_;
  // What a run's pointers begin as: tables of kernels; where which address goes.
  std::vector<const void*> pointers_;
  struct Placed {
    std::int32_t pointer = 0, address = 0;
  };
  std::vector<Placed> placed_;
};

}  // namespace plimsoll::device
