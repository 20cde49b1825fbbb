// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/device/device.h"
#include "runtime/executor/loop_windows.h"
#include "runtime/executor/resolved_plan.h"
#include "runtime/executor/transfers.h"

namespace plimsoll::executor {

// Where a plan's memory begins.
struct Base {
  std::byte* arena = nullptr;
  PerTier<std::int64_t> tiers{};  // offsets in the run's blocks
};

// What a run notes while it goes, besides its results, and how it goes.
struct Observation {
  bool profile = false;          // steps are run one by one
  bool joint_launches = true;    // where they are not profiled
  std::int64_t fail_launch = 0;  // the n-th kernel launch fails; 0: none
  const Stop* stop = nullptr;    // looked at before every step; null: none
};

// One run: pointers, the profile's clock, and the walk over the steps.
class Run {
 public:
  Run(device::Stream& stream, const std::byte* constants, Transfers& transfers,
      const Observation& observation, std::size_t measurements)
      : stream_(stream),
        constants_(constants),
        transfers_(transfers),
        observation_(observation),
        measured_(observation.profile ? measurements : 0) {}

  Status run_plan(const ResolvedPlan& plan, const Base& base, std::span<void* const> parameters,
                  std::span<void* const> outputs, std::vector<void*>* addresses_out = nullptr);

  // Times of Resolution::measurements; empty without profiling. To be read after the last wait.
  const std::vector<MeasuredTime>& measured();

 private:
  struct Frame {
    Base base;
    std::vector<void*> addresses;  // per buffer; null for those of other tiers
  };
  Status check_stop() const {
    return observation_.stop == nullptr ? ok_status() : observation_.stop->check();
  }
  // The test hook: is this the launch that fails?
  Status count_launch(const ResolvedStep& step);
  Status run_joint(const ResolvedPlan& plan, const ResolvedLaunch& launch, const Frame& frame);
  Status observe_step(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status run_step(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status start_transfer(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status end_transfer(const ResolvedPlan& plan, const ResolvedStep& step);
  Status run_while(const ResolvedPlan& plan, const ResolvedStep& step,
                   std::span<void* const> inputs, std::span<void* const> outputs, const Base& base,
                   const Frame& frame);
  LoopWindows open_windows(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status run_conditional(const ResolvedPlan& plan, const ResolvedStep& step,
                         std::span<void* const> inputs, std::span<void* const> outputs,
                         const Base& base);
  Status copy(void* to, const void* from, std::int64_t bytes) {
    return stream_.copy(to, from, bytes, device::CopyKind::device_to_device);
  }

  device::Stream& stream_;
  const std::byte* constants_;
  Transfers& transfers_;
  Observation observation_;
  std::vector<MeasuredTime> measured_;
  // Of a joint launch, kept from one to the next.
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_, workspaces_;
  // When what was measured ran, until `measured` has compared it with the transfers.
  using Clock = std::chrono::steady_clock;
  struct Ran {
    Clock::time_point start, end;
    std::int32_t measurement = -1;
    bool again = false;
  };
  std::vector<Ran> kernels_, copies_;
};

}  // namespace plimsoll::executor
