// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/base/cancellation.h"
#include "runtime/base/status.h"
#include "runtime/program/program.h"

namespace plimsoll::executor {

// A program and a plan of it: what an Executable is made from.
struct ProgramPlan {
  std::shared_ptr<const Program> program;
  std::shared_ptr<const planner::Plan> plan;
  std::uint64_t costs_version = 0;         // of the cost model that it was made by
  std::shared_ptr<const Program> asked{};  // that plan_within was asked for a plan of
  bool is_first = false;                   // made by Effort::first
};

// The plan for these options: of `program`, or of another form of it where `program` does not fit
// into the limit, or fits so tightly that another may be faster. Where none fits, the error that
// names least_floor. A program that the limit costs nothing is never made twice. The plan's
// planning_seconds are those of all forms tried, making them included. With Effort::first,
// and with Effort::background unless codecs that change bits are allowed, it is the first plan that
// fits; where there is none the effort is full, so that the same limits are kept.
// CANCELLED soon after `stop` says so (null: never).
Result<ProgramPlan> plan_within(std::shared_ptr<const Program> program,
                                const planner::PlanOptions& options,
                                const Cancellation* stop = nullptr);

// The smallest limit that plan_within accepts: the lowest of the floors of the program's forms,
// which are made for it. The lower bound is that of all.
Result<planner::Floor> least_floor(const Program& program, const planner::PlanOptions& options);

// A refusal as whoever set the limit of the device's memory should read it: with what code and
// libraries take of it now (Device::overhead_bytes) in its numbers. Other errors stay as they are.
Status beside_code(const Status& refusal, const device::Device& device);

}  // namespace plimsoll::executor
