// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/evictor/evictor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/base/byte_size.h"
#include "runtime/base/index.h"

// Bringing back. restore() collects all operations that the wanted tensors need, backwards over
// what is gone, and runs them in the order in which they were recorded: an order in which
// everything worked once, so that no operation waits for a later one. Each may find its arguments
// gone again, evicted for one in between; then it restores them first, inside. `frames_` are those
// restorations inside each other; a limit on their number, and on runs in all, turns thrashing into
// an error that names the limit.
//
// Example: a -> b -> c -> d, all but the source of a gone, d wanted, and bytes for two. a, b, c, d
// run in this order; when c needs bytes, a goes (nobody awaits it any more: await() counts down as
// operations run).

namespace plimsoll::memory {
namespace {

// Restorations inside each other, rounds in which the arguments of one operation are restored
// together, and operations run again for one request, per operation known and at least.
constexpr std::size_t kMostFrames = 300;
constexpr int kMostRounds = 4;
constexpr std::int64_t kMostRunsPerOperation = 16;
constexpr std::int64_t kMostRuns = 256;

Status exhausted(std::string message) {
  return Status(StatusCode::resource_exhausted, std::move(message));
}

}  // namespace

void Evictor::drop(StorageId id) {
  lineage_.drop(id);
  gone(id);
}

void Evictor::evict(StorageId id) {
  leave_queue(id);
  const Cost cost = cost_to_restore(id);
  if (cost.by_copy()) {
    sink_->store(id);
    lineage_.set_stored(id, cost.kept_bytes);
    ++statistics_.stores;
    statistics_.encodes += cost.kept_bytes > 0;
  }
  drop(id);
  ++statistics_.evictions;
  if (sink_ != nullptr) sink_->drop(id);
}

Status Evictor::make_room(std::int64_t bytes) {
  bool entered = false;
  while (lineage_.used_bytes() + bytes > limit_bytes_) {
    StorageId victim = pick();
    if (victim < 0) victim = pick_awaited();
    if (victim < 0 && sink_ != nullptr && !std::exchange(entered, true)) {
      enter_all();
      continue;
    }
    if (victim < 0 && sink_ != nullptr && (victim = pick_copy()) >= 0) {
      lineage_.set_unstored(victim);
      sink_->discard_copy(victim);
      continue;
    }
    if (victim < 0) {
      return exhausted("no room for " + format_bytes(bytes) + " beside " +
                       format_bytes(lineage_.used_bytes()) + " that can't be evicted (limit " +
                       format_bytes(limit_bytes_) + ")");
    }
    evict(victim);
  }
  return ok_status();
}

void Evictor::await(OperationId id, std::int32_t reads) {
  for (const TensorId argument : lineage_.operation(id).arguments) {
    const StorageId storage = lineage_.tensor(argument).storage;
    Place& at = place(storage);
    at.awaited += reads;
    if (at.awaited > 0) {
      leave_queue(storage);
    } else {
      enter(storage);
    }
  }
}

std::int64_t Evictor::most_runs() const {
  return std::max(kMostRuns, kMostRunsPerOperation * lineage_.operation_count());
}

Status Evictor::pushes_itself_out() const {
  return exhausted("restoring: what is needed pushes itself out (limit " +
                   format_bytes(limit_bytes_) + ")");
}

Status Evictor::restore_all(std::span<const TensorId> tensors) {
  if (frames_.size() > kMostFrames || runs_ > most_runs()) return pushes_itself_out();
  // All operations that it takes, in the order they were recorded in.
  wanted_.resize(at(lineage_.operation_count()), false);
  std::vector<OperationId> needed;
  std::vector<TensorId> open(tensors.begin(), tensors.end());
  while (!open.empty()) {
    const Lineage::Tensor& tensor = lineage_.tensor(open.back());
    open.pop_back();
    if (tensor.is_source && !tensor.defined && !lineage_.storage(tensor.storage).stored) {
      for (const OperationId id : needed) wanted_[at(id)] = false;
      return internal_error("restoring: the bytes of a tensor that nothing can recompute are lost");
    }
    // What is stored is loaded when it is needed.
    if (tensor.defined || lineage_.storage(tensor.storage).stored || wanted_[at(tensor.producer)]) {
      continue;
    }
    wanted_[at(tensor.producer)] = true;
    needed.push_back(tensor.producer);
    const auto& arguments = lineage_.operation(tensor.producer).arguments;
    open.insert(open.end(), arguments.begin(), arguments.end());
  }
  std::sort(needed.begin(), needed.end(), [&](OperationId a, OperationId b) {
    return lineage_.operation(a).order < lineage_.operation(b).order;
  });
  for (const OperationId id : needed) wanted_[at(id)] = false;
  frames_.push_back({std::move(needed), 0});
  const std::size_t depth = frames_.size() - 1;
  for (const OperationId id : frames_[depth].operations) await(id, 1);
  Status status;
  while (frames_[depth].next < frames_[depth].operations.size()) {
    const OperationId id = frames_[depth].operations[frames_[depth].next];
    const Lineage::Operation& operation = lineage_.operation(id);
    bool wanted = false;
    for (std::int32_t i = 0; i < operation.output_count; ++i) {
      const TensorId output = operation.first_output + i;
      wanted |= !lineage_.tensor(output).defined && !lineage_.storage_of(output).stored;
    }
    if (wanted) status = execute(id, true);
    if (!status.ok()) break;
    ++frames_[depth].next;
    await(id, -1);
  }
  for (std::size_t i = frames_[depth].next; i < frames_[depth].operations.size(); ++i) {
    await(frames_[depth].operations[i], -1);
  }
  frames_.pop_back();
  for (const TensorId tensor : tensors) {
    const StorageId id = lineage_.tensor(tensor).storage;
    if (status.ok() && lineage_.storage(id).stored && !lineage_.storage(id).resident) {
      status = load(id);
    }
  }
  return status;
}

Status Evictor::load(StorageId id) {
  PLIMSOLL_RETURN_IF_ERROR(make_room(lineage_.storage(id).bytes));
  lineage_.load(id);
  lineage_.set_unstored(id);
  ++statistics_.loads;
  sink_->load(id);
  enter(id);
  return ok_status();
}

void Evictor::pin(TensorId id) {
  const StorageId storage = lineage_.tensor(id).storage;
  leave_queue(storage);
  lineage_.pin(storage);
}

void Evictor::unpin(TensorId id) {
  const StorageId storage = lineage_.tensor(id).storage;
  lineage_.unpin(storage);
  enter(storage);
}

void Evictor::unpin_all(std::span<const TensorId> tensors) {
  for (const TensorId tensor : tensors) {
    unpin(tensor);
    if (lineage_.storage_of(tensor).handles == 0) discard_unreferenced(tensor);
  }
}

// Arguments that push each other out: restoring the second evicts the first, and so on. After
// kMostRounds they are restored one by one, each pinned as soon as it is there, beginning with
// each of them in turn: the order decides whether the last one's own needs still fit.
Status Evictor::restore_and_pin(std::span<const TensorId> arguments) {
  const auto is_gone = [&](TensorId id) { return !lineage_.tensor(id).defined; };
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<TensorId> gone;
    std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(gone), is_gone);
    if (gone.empty()) {
      for (const TensorId argument : arguments) pin(argument);
      return ok_status();
    }
    PLIMSOLL_RETURN_IF_ERROR(restore_all(gone));
  }
  // They push each other out. One after the other, then, each staying, whichever may come first.
  Status status;
  for (std::size_t first = 0; first < arguments.size(); ++first) {
    std::size_t pinned = 0;
    const auto at = [&](std::size_t i) { return arguments[(first + i) % arguments.size()]; };
    for (status = ok_status(); pinned < arguments.size(); ++pinned) {
      const TensorId argument = at(pinned);
      if (is_gone(argument)) status = restore_all({&argument, 1});
      if (!status.ok()) break;
      pin(argument);
    }
    if (status.ok()) break;
    for (std::size_t i = 0; i < pinned; ++i) unpin(at(i));
  }
  return status;
}

Status Evictor::execute(OperationId id, bool again) {
  lineage_.touch(id);
  const std::vector<TensorId> arguments = lineage_.operation(id).arguments;
  PLIMSOLL_RETURN_IF_ERROR(restore_and_pin(arguments));
  Status status = make_room_for(id, again);
  if (status.ok()) {
    lineage_.ran(id);
    placed(id);
    if (again) {
      if (sink_ != nullptr) sink_->recompute(id);
      if (++runs_ > most_runs()) status = pushes_itself_out();
      ++statistics_.recomputes;
      statistics_.recompute_seconds += lineage_.operation(id).seconds;
      if (statistics_.recompute_seconds > most_recompute_seconds_) {
        status = exhausted("restoring: too much is recomputed (limit " +
                           format_bytes(limit_bytes_) + ")");
      }
    }
    const Lineage::Operation& operation = lineage_.operation(id);
    for (std::int32_t i = 0; i < operation.output_count; ++i) {
      const StorageId storage = lineage_.tensor(operation.first_output + i).storage;
      if (!again) lineage_.touch_storage(storage);
      // What came along, and nobody needs or could evict.
      const Lineage::Tensor& output = lineage_.tensor(operation.first_output + i);
      if (again && output.is_source && output.readers.empty() &&
          lineage_.storage(storage).handles == 0) {
        discard_storage(storage);
      }
      enter(storage);
    }
  }
  for (const TensorId argument : arguments) unpin(argument);
  return status;
}

Status Evictor::make_room_for(OperationId id, bool again) {
  const Lineage::Operation& operation = lineage_.operation(id);
  Status status = make_room(operation.bytes + operation.workspace_bytes);
  if (status.ok() || !again || sink_ == nullptr) return status;
  // All that could go has gone.
  const std::int64_t left = limit_bytes_ - lineage_.used_bytes() - operation.bytes;
  const std::int64_t workspace = left < 0 ? -1 : sink_->shrink_workspace(id, left);
  if (workspace < 0) return status;
  lineage_.set_workspace(id, workspace);
  return ok_status();
}

Status Evictor::run(OperationId id) {
  runs_ = 0;
  frames_.push_back({{id}, 0});
  await(id, 1);
  const Status status = execute(id, false);
  await(id, -1);
  frames_.pop_back();
  return status;
}

Status Evictor::restore(TensorId id) {
  runs_ = 0;
  const TensorId tensors[] = {id};
  return lineage_.tensor(id).defined ? ok_status() : restore_all(tensors);
}

void Evictor::release(TensorId id) {
  lineage_.release(id);
  const StorageId storage = lineage_.tensor(id).storage;
  if (lineage_.storage(storage).handles > 0 || !lineage_.storage(storage).resident ||
      lineage_.storage(storage).pins > 0) {
    return;
  }
  leave_queue(storage);
  drop(storage);
  if (sink_ != nullptr) sink_->drop(storage);
}

Status Evictor::pin_all(std::span<const TensorId> tensors) {
  runs_ = 0;
  return restore_and_pin(tensors);
}

// An operation whose results would take more than kMostVisited storages to recompute is not worth
// remembering: its results become sources, which can only be copied, and what only they needed can
// be erased. That bounds what every later decision looks at.
void Evictor::ran(OperationId id) {
  lineage_.touch(id);
  lineage_.ran(id);
  const Lineage::Operation& operation = lineage_.operation(id);
  const TensorId first = operation.first_output, end = first + operation.output_count;
  int gone = 0;
  for (TensorId output = first; output < end && gone < kMostVisited; ++output) {
    cost_to_restore(lineage_.tensor(output).storage, &gone);
  }
  for (TensorId output = first; output < end; ++output) {
    if (gone >= kMostVisited) lineage_.make_source(output);
    lineage_.touch_storage(lineage_.tensor(output).storage);
    enter(lineage_.tensor(output).storage);
  }
  if (gone >= kMostVisited && first < end) erase_unneeded(first);
}

TensorId Evictor::add_source(std::int64_t bytes) {
  const TensorId id = lineage_.add_source(bytes);
  enter(lineage_.tensor(id).storage);
  return id;
}

}  // namespace plimsoll::memory
