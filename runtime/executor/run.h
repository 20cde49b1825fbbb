// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/communication_thread.h"
#include "runtime/base/cancellation.h"
#include "runtime/device/device.h"
#include "runtime/executor/loop_windows.h"
#include "runtime/executor/resolved_plan.h"
#include "runtime/executor/stream_times.h"
#include "runtime/executor/transfers.h"

namespace plimsoll::executor {

// Where a plan's memory begins.
struct Base {
  std::byte* arena = nullptr;
  PerTier<std::int64_t> tiers{};  // offsets in the run's blocks
};

// What a run takes the time of: of launches as they are, each for all of its steps, or of every
// step, which are run one by one then.
enum class Timed : std::uint8_t { nothing, launches, steps };

// What a run notes while it goes, besides its results, and how it goes.
struct Observation {
  bool takes_times() const { return timed != Timed::nothing; }

  Timed timed = Timed::nothing;
  std::int64_t timed_rounds = 0;     // of each loop that has a sequence, where times are taken
  bool joint_launches = true;        // where not every step is timed
  std::int64_t fail_launch = 0;      // the n-th kernel launch fails; 0: none
  const Stop* stop = nullptr;        // looked at before every step; null: none
  double* waited_seconds = nullptr;  // RunOptions::waited_seconds
};

// One run: pointers, the profile's times, and the walk over the steps.
class Run {
 public:
  Run(device::Device& device, device::Stream& stream, const std::byte* constants,
      Transfers& transfers, const Observation& observation, std::size_t measurements)
      : device_(device),
        stream_(stream),
        constants_(constants),
        transfers_(transfers),
        observation_(observation),
        measured_(observation.takes_times() ? measurements : 0),
        scalars_(device),
        times_(device, stream),
        communication_(device) {}
  // To be called when the stream has nothing to do any more.
  ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // What taking times needs before the first step.
  Status open() { return measured_.empty() ? ok_status() : times_.open(); }
  Status run_plan(const ResolvedPlan& plan, const Base& base, std::span<void* const> parameters,
                  std::span<void* const> outputs,
                  IdVector<planner::BufferId, void*>* addresses_out = nullptr);

  // Times of Resolution::measurements; empty where none are taken. To be read after the last wait.
  Result<std::vector<MeasuredTime>> measured();

 private:
  struct Frame {
    void* address(planner::BufferId id) const { return id < 0 ? nullptr : addresses[id]; }

    Base base;
    IdVector<planner::BufferId, void*> addresses;  // null for those of other tiers
  };
  Status check_stop() const {
    return observation_.stop == nullptr ? ok_status() : observation_.stop->check();
  }
  // The test hook: is this the launch that fails?
  Status count_launch(const ResolvedStep& step);
  // What waits for other participants.
  template <typename Body>
  Status timed(Body&& body);
  // A collective that goes on while other launches run.
  Status begin_beside(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status run_launch(const ResolvedPlan& plan, const ResolvedLaunch& launch, const Frame& frame);
  Status run_joint(const ResolvedPlan& plan, const ResolvedLaunch& launch, const Frame& frame);
  // With their times, where those are taken.
  Status observe_launch(const ResolvedPlan& plan, const ResolvedLaunch& launch, const Frame& frame);
  Status observe_step(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  // Counts a step whose time is taken; what StreamTimes is to be told of it.
  StreamTimes::Span count_timed(const ResolvedStep& step);
  Status run_step(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status start_transfer(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status end_transfer(const ResolvedPlan& plan, const ResolvedStep& step);
  Status run_while(const ResolvedPlan& plan, const ResolvedStep& step,
                   std::span<void* const> inputs, std::span<void* const> outputs, const Base& base,
                   const Frame& frame);
  // From round `first_round` on.
  Status run_sequence(const LoopSequence& sequence, std::span<void* const> state, const Base& base,
                      std::int64_t first_round);
  LoopWindows open_windows(const ResolvedPlan& plan, const ResolvedStep& step, const Frame& frame);
  Status run_conditional(const ResolvedPlan& plan, const ResolvedStep& step,
                         std::span<void* const> inputs, std::span<void* const> outputs,
                         const Base& base);
  Status copy(void* to, const void* from, std::int64_t bytes) {
    return stream_.copy(to, from, bytes, device::CopyKind::device_to_device);
  }
  // A value that control flow asks for, when the device has got there.
  Status read(void* to, const void* from, std::int64_t bytes);
  // A place in device memory for such a value, outside the budget's account: one buffer of the
  // smallest size per loop that runs inside another.
  Result<void*> take_scalar();
  void give_back_scalar(void* scalar) { scalars_.free.push_back(scalar); }

  device::Device& device_;
  device::Stream& stream_;
  const std::byte* constants_;
  Transfers& transfers_;
  Observation observation_;
  std::vector<MeasuredTime> measured_;
  // Of a joint launch, kept from one to the next.
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_, workspaces_;
  std::vector<StreamTimes::Span> parts_;
  // Of take_scalar; they go after the communication thread, whose collectives may write them.
  struct Scalars {
    explicit Scalars(device::Device& of) : device(of) {}
    ~Scalars();
    Scalars(const Scalars&) = delete;
    Scalars& operator=(const Scalars&) = delete;

    device::Device& device;
    std::vector<void*> all, free;
  } scalars_;
  // When steps ran, and transfers beside them, until `measured` has compared them.
  StreamTimes times_;
  std::vector<StreamTimes::Span> copies_;
  collectives::CommunicationThread communication_;
};

}  // namespace plimsoll::executor
