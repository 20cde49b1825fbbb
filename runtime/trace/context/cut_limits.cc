// SPDX-License-Identifier: Apache-2.0
// What a Context says of the memory that a cut takes: when it is asked, and when it has to refuse.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "runtime/base/byte_size.h"
#include "runtime/program/machine.h"
#include "runtime/trace/context/context.h"
#include "runtime/trace/cut/cut_values.h"

namespace plimsoll::trace {

// Whether evaluate() could run the cut, of that floor, under that limit, as far as the books know.
bool Context::would_do(CachedProgram& program, std::int64_t floor_bytes, std::int64_t limit) {
  const std::vector<std::shared_ptr<Value>> leaves = values_of(cut_);
  const auto live = live_.dry_run();
  live->pretend_limit(limit);
  if (live->pin(leaves).ok()) {
    if (live->make_room(floor_bytes - device_bytes(leaves)).ok()) return true;
    live->unpin(leaves);
  }
  if (!live->can_evict_any(leaves)) return false;
  for (const auto& segments : program.segments) {
    if (segments == nullptr) continue;
    const auto apart = live->dry_run();
    std::vector<std::shared_ptr<Value>> results;
    if (run_segments(*segments, segment_parameters(program), *apart, false, results).ok()) {
      return true;
    }
  }
  return false;
}

// The least limit that does, or a little more; `least` if that does or if none is found.
//
// A refusal should name a limit that works. What works is found by dry runs, as eviction has no
// formula: steps of a sixteenth, doubled until one does (kDoublings), then halved between the last
// that did not and the first that did. The answer is a little too large at most, unless more memory
// may do worse than less, which eviction does not exclude; but it has been tried out, so it works.
//
// Example: the limit is 640 and `least` 1000, which does not do. Steps of 62, 124, 248 from 999 on
// try 1061, 1185, 1433: 1433 does. Halving tries 1309, and so on, down to the alignment of buffers
// or ten times.
std::int64_t Context::limit_that_does(std::int64_t least,
                                      const std::function<bool(std::int64_t)>& does) {
  constexpr int kDoublings = 8, kHalvings = 10;
  std::int64_t low = std::max(least - 1, live_.limit());
  if (least > low && does(least)) return least;
  std::int64_t high = low, step = std::max<std::int64_t>(low / 16, device::kBufferAlignment);
  bool found = false;
  for (int i = 0; i < kDoublings && !found; ++i, step *= 2) {
    low = high;
    high += step;
    found = does(high);
  }
  for (int i = 0; i < kHalvings && found; ++i) {
    const std::int64_t middle =
        (low + (high - low) / 2) / device::kBufferAlignment * device::kBufferAlignment;
    if (middle <= low) break;
    (does(middle) ? high : low) = middle;
  }
  return found ? high : least;
}

// `why`, with the limit that would do: at least the program's floor beside what can't be evicted,
// and with room to restore what it reads. Without a plan, `why` is that of whoever planned.
Status Context::refuse(CachedProgram& program, const Status& why, bool has_plan) {
  const std::int64_t fixed = live_.fixed_bytes_beside(values_of(cut_));
  MemoryShortage shortage;
  if (why.shortage() != nullptr) shortage = *why.shortage();
  shortage.limit_bytes = last_cut_.limit_bytes;
  if (shortage.floor_bytes <= 0) {
    const planner::PlanOptions options{options_.planning,
                                       executor::machine_of(budget_->tiers()),
                                       {budget_->limit(), residency_of(cut_, program)}};
    PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor floor,
                              executor::least_floor(*program.program, options));
    shortage.floor_bytes = floor.bytes;
    shortage.culprit = floor.culprit;
  }
  const std::int64_t floor_bytes = shortage.floor_bytes;
  shortage.floor_bytes = limit_that_does(floor_bytes + fixed, [&](std::int64_t limit) {
    return would_do(program, floor_bytes, limit);
  });
  last_cut_.floor_bytes = shortage.floor_bytes;
  std::string message = why.message();
  if (!has_plan) {
    // In terms of the context's limit: what was planned had what other tensors leave of it.
    message = fmt::format(
        "evaluate: no plan fits the limit of {} bytes (the smallest that would do is {}; {})",
        shortage.limit_bytes, shortage.floor_bytes, shortage.culprit);
  }
  if (fixed > 0) message += "; other tensors hold " + format_bytes(fixed);
  log(LogLevel::warning, message);
  return Status::resource_exhausted(std::move(message), std::move(shortage));
}

Result<MemoryNeeds> Context::measure(std::span<Node* const> wanted) {
  std::vector<Node*> old_leaves;
  const std::vector<Node*> outputs = pick_outputs(wanted, old_leaves);
  if (outputs.empty()) return MemoryNeeds{};
  make_cut(recording_, outputs, old_leaves, cut_);
  PLIMSOLL_ASSIGN_OR_RETURN(const CacheAnswer found, cache_.find_or_compile(cut_, names_));
  const executor::Program& program = *found.program->program;
  const planner::PlanOptions options{options_.planning,
                                     executor::machine_of(budget_->tiers()),
                                     {planner::kUnlimited, residency_of(cut_, *found.program)}};
  PLIMSOLL_ASSIGN_OR_RETURN(const auto free_plan, program.plan(options));
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor floor, executor::least_floor(program, options));
  const std::vector<std::shared_ptr<Value>> leaves = values_of(cut_);
  return MemoryNeeds{floor.bytes + live_.fixed_bytes_beside(leaves),
                     free_plan->peak_bytes + live_.bytes_beside(leaves)};
}

}  // namespace plimsoll::trace
