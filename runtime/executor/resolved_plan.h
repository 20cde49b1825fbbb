// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/joint_launch.h"
#include "runtime/executor/executable.h"
#include "runtime/executor/loop_sequence.h"
#include "runtime/program/program.h"

namespace plimsoll::executor {

// A plan with every look-up done: kernels by pointer, operands as ranges of one index array.
struct ResolvedStep {
  planner::StepKind kind = planner::StepKind::compute;
  ir::Opcode opcode = ir::Opcode::parameter;
  const ir::Instruction* instruction = nullptr;
  const device::Kernel* kernel = nullptr;
  std::int32_t inputs = 0, input_count = 0;  // ranges of ResolvedPlan::ids
  std::int32_t outputs = 0, output_count = 0;
  planner::BufferId workspace;
  PerTier<planner::BufferId> tier_workspaces;
  planner::StepId transfer;                    // swap_wait: the step that started it
  bool synchronous = false;                    // swap_*: as planned (planner::Step)
  std::int32_t callees = 0, callee_count = 0;  // range of ResolvedPlan::callees
  std::int32_t sliced = 0, sliced_count = 0;   // range of ResolvedPlan::sliced
  std::int32_t measurement = -1;               // of Resolution::measurements
  double seconds = 0;                          // of a kernel, as predicted before any was measured
  // Of a while: what its condition would say, where that is known; -1: it must be asked.
  std::int64_t rounds = -1;
  // Of a while, all of it; null: its rounds are walked through.
  std::shared_ptr<const LoopSequence> sequence;
};

struct ResolvedSlicedState {
  planner::SlicedState state;
  std::int32_t measurement = -1;  // of Resolution::measurements
};

// What runs at one time: a step, or several whose kernels share a launch.
struct ResolvedLaunch {
  std::int32_t steps = 0, step_count = 0;  // range of ResolvedPlan::launch_steps
  std::int32_t joint = -1;                 // of ResolvedPlan::joint_launches; -1: a step alone
  bool is_chain = false;                   // of two steps, the second reads what the first makes
  // A collective that goes on while others run; one that meets others itself; and how many of the
  // plan's that go on must be over before (collectives_beside.h).
  bool goes_on = false, meets = false;
  std::int32_t waits = 0;
};

struct ResolvedPlan {
  const planner::Plan* plan = nullptr;
  IdVector<planner::StepId, ResolvedStep> steps;
  // The steps again, but those of kind `free`, as a run takes them that does not look at each of
  // them (launch_order.h).
  std::vector<ResolvedLaunch> launches;
  std::vector<planner::StepId> launch_steps;
  std::vector<std::shared_ptr<const device::JointLaunch>> joint_launches;
  std::vector<planner::BufferId> ids;
  std::vector<const ResolvedPlan*> callees;
  std::vector<ResolvedSlicedState> sliced;
  IdVector<planner::BufferId, std::int64_t> constant_offsets;  // -1: no constant on the device
  IdVector<planner::BufferId, std::int64_t> bytes;
};

// A constant's place in the block that a run fills before its first step.
struct Constant {
  const ir::Literal* literal;
  std::int64_t offset;
};

// What runs have measured of something, added up.
struct MeasuredTime {
  std::int64_t launches = 0, recomputes = 0;
  double seconds = 0, recompute_seconds = 0, transfer_seconds = 0;
  // Of seconds and recompute_seconds, what passed while a transfer was on its engine (twice, where
  // two were).
  double beside_transfers = 0, recompute_beside_transfers = 0;
};

// What resolving a plan and its callees gathers besides the steps.
struct Resolution {
  // One per distinct plan, the entry's first: steps that share a callee's plan share what became of
  // it.
  std::vector<std::unique_ptr<ResolvedPlan>> plans;
  std::vector<Constant> constants;  // of all plans, each once
  std::int64_t constant_bytes = 0;
  std::vector<Measurement> measurements;  // one per thing that steps do, times all zero
  LaunchCounts launches;
  // The encoders and decoders of the plan's steps.
  std::vector<std::shared_ptr<const device::Kernel>> codecs;
};

// `plan` must outlive the result. FAILED_PRECONDITION for constants without values.
Result<Resolution> resolve(const Program& program, const planner::Plan& plan);

}  // namespace plimsoll::executor
