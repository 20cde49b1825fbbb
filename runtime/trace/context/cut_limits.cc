// SPDX-License-Identifier: Apache-2.0
// What a Context says of the memory that a cut takes: when it is asked, and when it has to refuse.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/base/byte_size.h"
#include "runtime/program/machine.h"
#include "runtime/trace/context/context.h"
#include "runtime/trace/cut/cut_values.h"

namespace plimsoll::trace {
namespace {

std::string with_limit(const std::string& why, const MemoryShortage& shortage) {
  return fmt::format("{} (the smallest limit that would do is {})", why, shortage.floor_bytes);
}

}  // namespace

// Whether choose_plan() would find a plan, and the room for it.
bool Context::has_room(LiveValues& live, CachedProgram& program, std::int64_t held_bytes) {
  const std::vector<planner::ParameterResidency> residency = cut_.residency;
  bool does = false;
  do {
    const auto floor = executor::least_floor(*program.program,
                                             {options_.planning,
                                              live.free_machine(),
                                              {budget_->limit(), residency_of(cut_, program), {}}});
    does = floor.ok() && (live.limit() - live.used_bytes() + held_bytes >= floor->bytes ||
                          live.make_room(floor->bytes - held_bytes).ok());
  } while (does && keep_what_is_needed(live));
  cut_.residency = residency;
  return does;
}

// Whether evaluate() could do what is left of it under that limit, as far as the books know:
// uploads, for which these values stand in, then the cut, if any, as `program`.
bool Context::would_do(std::span<const std::shared_ptr<Value>> uploads, CachedProgram* program,
                       std::int64_t limit) {
  const auto live = live_.dry_run();
  live->pretend_limit(limit);
  for (const auto& value : uploads) {
    if (!live->make_room(value->bytes).ok()) return false;
    live->add_source(value);
  }
  if (program == nullptr) return true;
  const std::vector<std::shared_ptr<Value>> leaves = values_of(cut_);
  if (live->pin(leaves).ok()) {
    if (has_room(*live, *program, device_bytes(leaves))) return true;
    live->unpin(leaves);
  }
  if (!live->can_evict_any(leaves)) return false;
  for (std::size_t i = 0; i < program->segments.size(); ++i) {
    const auto segments = segments_of(*program, i);
    if (!segments.ok()) continue;
    const auto apart = live->dry_run();
    std::vector<std::shared_ptr<Value>> results;
    if (run_segments(**segments, segment_parameters(*program), *apart, false, results).ok()) {
      return true;
    }
  }
  return false;
}

// What was submitted has run, or is submitted again where it failed: the books hold.
void Context::settle() {
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    worker_.wait_idle();
    if (!worker_.has_failures() || !live_.recover().ok()) return;
  }
}

// The least limit that does; `likely` if none is found.
//
// A refusal should name a limit that works. What works is found by dry runs, as eviction has no
// formula: if `likely` does not, in steps of a sixteenth from there on, doubled until one does
// (kDoublings); then halved between the last that did not (the limit in force at first) and the
// first that did, down to the alignment of buffers. More memory may do worse than less, which
// eviction does not exclude, so that a smaller one may do, too; but the answer has been tried out.
//
// Example: the limit is 640 and `likely` 1000, which does not do. Steps of 62, 124, 248 from there
// on try 1062, 1186, 1434: 1434 does. Halving tries 1280, and so on.
std::int64_t Context::limit_that_does(std::int64_t likely,
                                      const std::function<bool(std::int64_t)>& does) {
  constexpr int kDoublings = 8;
  std::int64_t low = live_.limit(), high = std::max(low, likely);
  bool found = high > low && does(high);
  std::int64_t step = std::max<std::int64_t>(high / 16, device::kBufferAlignment);
  for (int i = 0; i < kDoublings && !found; ++i, step *= 2) {
    low = high;
    high += step;
    found = does(high);
  }
  if (!found) return likely;
  while (true) {
    const std::int64_t middle =
        (low + (high - low) / 2) / device::kBufferAlignment * device::kBufferAlignment;
    if (middle <= low) return high;
    (does(middle) ? high : low) = middle;
  }
}

// `why`, with the limit that would do: at least the program's floor beside what can't be evicted,
// and with room to restore what it reads. Without a plan, `why` is that of whoever planned.
Status Context::refuse(CachedProgram& program, const Status& why, bool has_plan) {
  settle();
  const std::int64_t fixed = live_.fixed_bytes_beside(values_of(cut_));
  MemoryShortage shortage;
  if (why.shortage() != nullptr) shortage = *why.shortage();
  shortage.limit_bytes = last_cut_.limit_bytes;
  if (shortage.floor_bytes <= 0) {
    const planner::PlanOptions options{options_.planning,
                                       executor::machine_of(budget_->tiers()),
                                       {budget_->limit(), residency_of(cut_, program), {}}};
    PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor floor,
                              executor::least_floor(*program.program, options));
    shortage.floor_bytes = floor.bytes;
    shortage.culprit = floor.culprit;
  }
  shortage.floor_bytes = limit_that_does(shortage.floor_bytes + fixed, [&](std::int64_t limit) {
    return would_do({}, &program, limit);
  });
  last_cut_.floor_bytes = shortage.floor_bytes;
  std::string message = why.message();
  if (!has_plan) {
    // In terms of the context's limit: what was planned had what other tensors leave of it.
    message = fmt::format(
        "evaluate: no plan fits the limit of {} bytes (the smallest that would do is {}; {})",
        shortage.limit_bytes, shortage.floor_bytes, shortage.culprit);
  } else {
    message = with_limit(message, shortage);
  }
  if (fixed > 0) message += "; other tensors hold " + format_bytes(fixed);
  log(LogLevel::warning, message);
  return Status::resource_exhausted(std::move(message), std::move(shortage));
}

// `why`, with the limit that does for all that evaluate() had still to do when it could not bring
// the first of `leaves` to the device.
Status Context::refuse_upload(std::span<Node* const> leaves, std::span<Node* const> wanted,
                              const Status& why) {
  if (why.shortage() == nullptr) return why;
  settle();
  MemoryShortage shortage = *why.shortage();
  // As if they were there already.
  std::vector<std::shared_ptr<Value>> uploads, on_host;
  for (Node* leaf : leaves) {
    uploads.push_back(std::make_shared<Value>());
    uploads.back()->bytes = aligned_bytes(leaf->byte_size());
    on_host.push_back(std::exchange(leaf->value, uploads.back()));
  }
  std::vector<Node*> old_leaves;
  const std::vector<Node*> outputs = pick_outputs(wanted, old_leaves);
  std::optional<CacheAnswer> found;
  if (!outputs.empty()) {
    make_cut(recording_, outputs, old_leaves, cut_);
    auto compiled = cache_.find_or_compile(cut_, names_);
    if (compiled.ok()) found = std::move(*compiled);
  }
  CachedProgram* const program = found ? &*found->program : nullptr;
  const std::int64_t named = limit_that_does(
      shortage.floor_bytes, [&](std::int64_t limit) { return would_do(uploads, program, limit); });
  shortage.floor_bytes = std::max(shortage.floor_bytes, named);
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i]->value = std::move(on_host[i]);
  return Status::resource_exhausted(with_limit(why.message(), shortage), shortage);
}

// The bytes of a leaf could not be restored.
Status Context::refuse_pin(Node* leaf, const Status& why) {
  settle();
  MemoryShortage shortage{live_.limit(), 0, "restoring " + leaf->shape().to_string()};
  shortage.floor_bytes = limit_that_does(0, [&](std::int64_t limit) {
    const auto live = live_.dry_run();
    live->pretend_limit(limit);
    return live->pin(std::span(&leaf->value, 1)).ok();
  });
  return Status::resource_exhausted(with_limit(why.message(), shortage), shortage);
}

Result<MemoryNeeds> Context::measure(std::span<Node* const> wanted) {
  PLIMSOLL_RETURN_IF_ERROR(check_outside("measure", wanted));
  std::vector<Node*> old_leaves;
  const std::vector<Node*> outputs = pick_outputs(wanted, old_leaves);
  if (outputs.empty()) return MemoryNeeds{};
  make_cut(recording_, outputs, old_leaves, cut_);
  PLIMSOLL_ASSIGN_OR_RETURN(const CacheAnswer found, cache_.find_or_compile(cut_, names_));
  const executor::Program& program = *found.program->program;
  const planner::PlanOptions options{options_.planning,
                                     executor::machine_of(budget_->tiers()),
                                     {planner::kUnlimited, residency_of(cut_, *found.program), {}}};
  PLIMSOLL_ASSIGN_OR_RETURN(const auto free_plan, program.plan(options));
  PLIMSOLL_ASSIGN_OR_RETURN(const planner::Floor floor, executor::least_floor(program, options));
  const std::vector<std::shared_ptr<Value>> leaves = values_of(cut_);
  const std::int64_t code = budget_->device().overhead_bytes();
  return MemoryNeeds{floor.bytes + live_.fixed_bytes_beside(leaves) + code,
                     free_plan->peak_bytes + live_.bytes_beside(leaves) + code};
}

}  // namespace plimsoll::trace
