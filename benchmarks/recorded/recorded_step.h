// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/planner/problem/problem.h"
#include "runtime/planner/problem/schedule.h"

namespace plimsoll::planner {

// A training step recorded elsewhere: operations with times, storages with sizes, and views of
// storages. Its accounting: constants are always resident; an op needs all its arguments and then
// room for all storages it makes, those that are still resident included; evicting a storage
// undefines the views of it, and a view is recomputed by running its op again; at the end all
// tensors to hold are resident at once.
//
// Text form, numbers apart by white space, one item a line:
//   unlimited_peak storages tensors ops held_tensors
//   per storage: bytes is_constant is_held
//   per tensor: storage producing_op            (-1: a constant)
//   per op: nanoseconds n arguments... m (tensor is_fresh)...
//   the tensors to hold at the end
struct RecordedStep {
  std::int64_t unlimited_peak = 0;  // as the text says
  int op_count = 0;                 // recorded ops; `problem` has one more
  int storage_count = 0;
  IdVector<OpId, std::int64_t> nanoseconds;
  std::int64_t total_nanoseconds = 0;
  // Value s < storage_count is storage s; behind them one value without bytes per view. Op
  // `op_count` takes no time and reads what is to be held. Constants are `parameter_bytes`.
  Problem problem;

  bool is_recorded(OpId op) const { return op.value() < op_count; }
  bool is_storage(ValueId v) const { return v.value() < storage_count; }
};

// True when `text` is meant as a recorded step: it begins with a number, as no program does.
bool is_recorded_step(std::string_view text);

// INVALID_ARGUMENT with `name:line:` where the text is not a recorded step.
Result<RecordedStep> parse_recorded_step(std::string_view text, std::string_view name);

// A schedule of `step.problem` as actions, one a line: `c OP` runs an op, `f STORAGE` evicts a
// storage's bytes (after its last read before it is recomputed).
std::string schedule_text(const RecordedStep& step, std::span<const OpId> schedule);

// Peak in bytes, constants included, and time of all executions.
struct RecordedCost {
  std::int64_t peak_bytes = 0;
  std::int64_t nanoseconds = 0;
};
RecordedCost recorded_cost(const RecordedStep& step, std::span<const OpId> schedule);

}  // namespace plimsoll::planner
