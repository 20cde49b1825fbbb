// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"
#include "runtime/device/device.h"
#include "runtime/executor/profile.h"
#include "runtime/executor/run_times.h"
#include "runtime/memory/budget/admission.h"
#include "runtime/memory/budget/budget.h"
#include "runtime/planner/planner.h"
#include "runtime/program/plan_within.h"

namespace plimsoll::executor {

struct Arguments {
  // One per parameter leaf: a device pointer (resident, donated) or a host pointer (host). Donated
  // buffers are overwritten; which outputs they hold afterwards is Executable::output_parameter.
  std::span<void* const> parameters;
  // One per result leaf: where to write it, ignored where output_parameter(leaf) >= 0. Host memory
  // where is_result_on_host, else device blocks of whole units of device::kBufferAlignment bytes,
  // the run's alone from its start on: temporaries lie there before the result does.
  std::span<void* const> outputs;
};

// How a run goes.
struct RunOptions {
  // Where its memory comes from; null: the budget, as far as there is room at the moment.
  memory::Admitted* admitted = nullptr;
  Stop stop;  // looked at before every step, and while the run waits for other participants
  // This run's end of what the program's participants share; null where it has but one.
  device::Communicator* communicator = nullptr;
  // Grows by the seconds in which the run's thread waits for other participants: for collectives
  // that go on beside kernels from where their results are needed, for others all they take. Null:
  // nobody asks. Runs whose steps or launches are timed leave it as it is.
  double* waited_seconds = nullptr;
};

// A program with a plan. Immutable; any number of threads may run it at once, each run takes its
// own arena from the budget.
class Executable {
 public:
  // Makes a plan runnable. FAILED_PRECONDITION for constants without values.
  static Result<std::shared_ptr<const Executable>> create(ProgramPlan made);

  const Program& program() const { return *program_; }
  const std::shared_ptr<const Program>& shared_program() const { return program_; }
  const planner::Plan& plan() const { return *plan_; }
  // The parameter leaf whose donated buffer holds result leaf `leaf`, or -1.
  int output_parameter(int leaf) const;
  // Whether result leaf `leaf` is written to host memory: Arguments::outputs has a host pointer.
  bool is_result_on_host(int leaf) const;
  // How parameter leaf `leaf` is passed: as the plan was made for.
  planner::ParameterResidency residency(int leaf) const;

  // Takes the arena from `budget` and the blocks of other tiers from its tiers, runs every step on
  // `stream`, waits. The caller's parameters and outputs must already be accounted for. On an
  // error, CANCELLED and DEADLINE_EXCEEDED among them, donated buffers have undefined contents.
  Status run(device::Stream& stream, memory::Budget& budget, const Arguments& arguments,
             const RunOptions& options = {}) const;

  std::vector<ProfileEntry> profile() const;
  std::vector<Measurement> measurements() const;
  void clear_profile() const;
  // Profiling reads the clock around every step; off by default.
  void enable_profile(bool on) const;
  // Small kernels that do not depend on each other run in one launch (launch_order.h), except where
  // each step is timed. Off: one by one, in the plan's order, with the same bits. On by default,
  // unless PLIMSOLL_LAUNCHES says `apart`.
  void enable_joint_launches(bool on) const;
  // With joint launches on.
  LaunchCounts launches() const;
  // How many runs the device has done as one launch of a graph (graph_runs.h).
  std::int64_t graph_runs() const;
  // Fault injection for tests: the n-th kernel launch of the next run (1 = first) fails.
  void fail_launch(std::int64_t n) const;
  // Measures some of the runs for Program::costs: not the first, whose memory is new to the
  // machine, the next four, then fewer and fewer down to every 64th, so that reading the clock
  // costs next to nothing. Off by default.
  void enable_sampling(bool on) const;
  // Of whole runs that end well, in which no step or launch was timed and no other participants
  // took part.
  RunTimes& run_times() const;

  struct Impl;
  Executable(ProgramPlan made, std::unique_ptr<Impl> impl);
  ~Executable();

 private:
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const planner::Plan> plan_;
  std::unique_ptr<Impl> impl_;
};

// A plan for what a limit leaves may need code of kernels that is loaded for it and takes a part of
// the limit itself: so many plans are made at most until one fits beside its code.
inline constexpr int kMostFirstPlans = 4;

// Plans `program` (plan_within) for runs in `budget`, on its tiers and within its limit where
// that is lower than the question's, and makes the plan runnable. RESOURCE_EXHAUSTED with the floor
// when the limit can't be kept.
Result<std::shared_ptr<const Executable>> make_executable(std::shared_ptr<const Program> program,
                                                          const planner::PlanPolicy& policy,
                                                          const planner::Question& question,
                                                          const memory::Budget& budget);

}  // namespace plimsoll::executor
