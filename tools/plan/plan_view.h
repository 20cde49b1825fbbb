// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/planner/plan.h"

namespace plimsoll::tools {

// A plan's memory over time, for people.
struct PlanView {
  struct Value {
    std::string name;  // of the instruction (and leaf) it holds first
    std::string shape;
    std::vector<std::string> later_names;  // what took the buffer over in place, the first few
    std::string name_at_peak;              // of what it holds at the peak
    const planner::Buffer* buffer = nullptr;
    bool recomputed = false;  // written by a recompute step
    bool uploaded = false;    // from host memory
    bool workspace = false;
  };
  IdVector<planner::BufferId, Value> values;
  // Bytes that are held from the first to the last step: parameters, constants, outputs.
  std::int64_t fixed_bytes = 0;
  IdVector<planner::StepId, std::int64_t> live_bytes;  // fixed_bytes included
  planner::StepId peak_step;                           // of live_bytes; -1 for a plan without steps
  std::vector<planner::BufferId> live_at_peak;         // largest first
};
PlanView view_plan(const planner::Plan& plan);

// From where a value is written, or uploaded, to its last use, in place or not; one per writing and
// leaf.
struct ValueLife {
  int leaf = 0;
  std::int64_t bytes = 0;
  planner::StepId first_step{0}, last_step{0};
  bool recomputed = false;
};
std::vector<ValueLife> lives_of(const planner::Plan& plan, const ir::Instruction& instruction);

std::string_view to_string(planner::StepKind kind);

}  // namespace plimsoll::tools
