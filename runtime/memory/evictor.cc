// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/evictor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "runtime/base/byte_size.h"

namespace plimsoll::memory {
namespace {

// How much the time since its last use makes a storage dispensable, and how much it does that
// nobody holds it; chosen on the recorded steps of benchmarks/eviction.
constexpr double kStalenessExponent = 0.35;
constexpr double kUnheldCost = 0.25;
constexpr double kLeastIdleSeconds = 1e-9;
// Of what a storage needs that is gone, so much is looked at: beyond, its cost is a lower bound.
constexpr int kMostVisited = 64;
// Of each queue, so many are looked at until one stands where it belongs.
constexpr int kMostLooks = 16;
// Queues per doubling of cost per byte, and the number of the one for a second per byte.
constexpr double kQueuesPerDoubling = 4;
constexpr double kQueueOfOne = 200;
// Restorations inside each other, rounds in which the arguments of one operation are brought back
// together, and restorations for one request per operation ever recorded.
constexpr std::size_t kMostFrames = 300;
constexpr int kMostRounds = 4;
constexpr std::int64_t kMostRestorationsPerOperation = 64;

Status exhausted(std::string message) {
  return Status(StatusCode::resource_exhausted, std::move(message));
}

}  // namespace

Evictor::Place& Evictor::place(StorageId id) {
  if (static_cast<std::size_t>(id) >= places_.size()) {
    places_.resize(static_cast<std::size_t>(lineage_.storage_count()) * 2);
  }
  return places_[static_cast<std::size_t>(id)];
}

double Evictor::cost_to_bring_back(StorageId id) {
  ++mark_;
  double seconds = lineage_.storage(id).seconds;
  stack_.assign(1, id);
  place(id).mark = mark_;
  int visited = 0;
  while (!stack_.empty() && visited < kMostVisited) {
    const StorageId top = stack_.back();
    stack_.pop_back();
    lineage_.visit_arguments(top, [&](StorageId needed) {
      Place& at = place(needed);
      if (at.mark == mark_) return;
      at.mark = mark_;
      const Lineage::Storage& storage = lineage_.storage(needed);
      if (storage.resident) return;
      seconds += storage.seconds;
      ++visited;
      stack_.push_back(needed);
    });
  }
  if (lineage_.storage(id).handles == 0) seconds *= kUnheldCost;
  return seconds;
}

int Evictor::queue_of(double cost_per_byte) {
  if (!(cost_per_byte > 0)) return 0;
  const double magnitude = kQueuesPerDoubling * std::log2(cost_per_byte) + kQueueOfOne;
  return std::clamp(static_cast<int>(magnitude), 0, kQueues - 1);
}

void Evictor::enter_queue(StorageId id, int number, bool newest) {
  Place& at = place(id);
  Queue& queue = queues_[static_cast<std::size_t>(number)];
  at.queue = number;
  StorageId before = newest ? queue.last : -1;
  if (!newest) {
    const double last_use = lineage_.storage(id).last_use;
    StorageId behind = queue.first;
    for (int i = 0; i < 16 && behind >= 0 && lineage_.storage(behind).last_use < last_use; ++i) {
      before = behind;
      behind = place(behind).next;
    }
  }
  at.previous = before;
  at.next = before >= 0 ? place(before).next : queue.first;
  (before >= 0 ? place(before).next : queue.first) = id;
  (at.next >= 0 ? place(at.next).previous : queue.last) = id;
  occupied_[static_cast<std::size_t>(number) / 64] |= std::uint64_t{1} << (number % 64);
}

void Evictor::enter(StorageId id) {
  Place& at = place(id);
  const Lineage::Storage& storage = lineage_.storage(id);
  if (at.queue >= 0 || at.awaited > 0 || !storage.resident || storage.locks > 0 ||
      storage.bytes == 0) {
    return;
  }
  enter_queue(id, queue_of(cost_to_bring_back(id) / static_cast<double>(storage.bytes)), true);
}

void Evictor::leave(StorageId id) {
  Place& at = place(id);
  if (at.queue < 0) return;
  Queue& queue = queues_[static_cast<std::size_t>(at.queue)];
  (at.previous >= 0 ? place(at.previous).next : queue.first) = at.next;
  (at.next >= 0 ? place(at.next).previous : queue.last) = at.previous;
  if (queue.first < 0) {
    occupied_[static_cast<std::size_t>(at.queue) / 64] &= ~(std::uint64_t{1} << (at.queue % 64));
  }
  at.queue = -1;
}

StorageId Evictor::pick() {
  StorageId best = -1;
  double best_score = 0;
  for (std::size_t word = 0; word < occupied_.size(); ++word) {
    for (std::uint64_t bits = occupied_[word]; bits != 0; bits &= bits - 1) {
      const int number = static_cast<int>(word) * 64 + std::countr_zero(bits);
      // What went or came back since it was put there may have changed its cost.
      for (int look = 0; look < kMostLooks; ++look) {
        const StorageId id = queues_[static_cast<std::size_t>(number)].first;
        if (id < 0) break;
        const Lineage::Storage& storage = lineage_.storage(id);
        const double cost = cost_to_bring_back(id) / static_cast<double>(storage.bytes);
        const int now = queue_of(cost);
        if (now != number) {
          leave(id);
          enter_queue(id, now, false);
        }
        const double idle = std::max(lineage_.clock() - storage.last_use, kLeastIdleSeconds);
        const double score = cost / std::pow(idle, kStalenessExponent);
        if (best < 0 || score < best_score) {
          best = id;
          best_score = score;
        }
        if (now == number) break;
      }
    }
  }
  return best;
}

StorageId Evictor::pick_awaited() {
  // The one whose next reader comes last: the walk sees readers in the order they will run in.
  ++mark_;
  StorageId last = -1;
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    for (std::size_t i = frame->next; i < frame->operations.size(); ++i) {
      for (const TensorId argument : lineage_.operation(frame->operations[i]).arguments) {
        const StorageId id = lineage_.tensor(argument).storage;
        Place& at = place(id);
        if (at.mark == mark_) continue;
        at.mark = mark_;
        const Lineage::Storage& storage = lineage_.storage(id);
        if (storage.resident && storage.locks == 0 && storage.bytes > 0) last = id;
      }
    }
  }
  return last;
}

Status Evictor::make_room(std::int64_t bytes) {
  while (lineage_.used_bytes() + bytes > limit_bytes_) {
    StorageId victim = pick();
    if (victim < 0) victim = pick_awaited();
    if (victim < 0) {
      return exhausted("no room for " + format_bytes(bytes) + " beside " +
                       format_bytes(lineage_.used_bytes()) + " that can't be given up (limit " +
                       format_bytes(limit_bytes_) + ")");
    }
    leave(victim);
    lineage_.drop(victim);
    ++statistics_.evictions;
    if (sink_ != nullptr) sink_->drop(victim);
  }
  return ok_status();
}

void Evictor::await(OperationId id, std::int32_t reads) {
  for (const TensorId argument : lineage_.operation(id).arguments) {
    const StorageId storage = lineage_.tensor(argument).storage;
    Place& at = place(storage);
    at.awaited += reads;
    if (at.awaited > 0) {
      leave(storage);
    } else {
      enter(storage);
    }
  }
}

Status Evictor::restore(std::span<const TensorId> tensors) {
  if (frames_.size() > kMostFrames ||
      ++restorations_ > kMostRestorationsPerOperation * lineage_.operation_count()) {
    return exhausted("bringing back: what is needed pushes itself out (limit " +
                     format_bytes(limit_bytes_) + ")");
  }
  // All operations that it takes, in the order they were recorded in.
  wanted_.resize(static_cast<std::size_t>(lineage_.operation_count()), false);
  std::vector<OperationId> needed;
  std::vector<TensorId> open(tensors.begin(), tensors.end());
  while (!open.empty()) {
    const Lineage::Tensor& tensor = lineage_.tensor(open.back());
    open.pop_back();
    if (tensor.defined || wanted_[static_cast<std::size_t>(tensor.producer)]) continue;
    wanted_[static_cast<std::size_t>(tensor.producer)] = true;
    needed.push_back(tensor.producer);
    const auto& arguments = lineage_.operation(tensor.producer).arguments;
    open.insert(open.end(), arguments.begin(), arguments.end());
  }
  std::sort(needed.begin(), needed.end());
  for (const OperationId id : needed) wanted_[static_cast<std::size_t>(id)] = false;
  frames_.push_back({std::move(needed), 0});
  const std::size_t depth = frames_.size() - 1;
  for (const OperationId id : frames_[depth].operations) await(id, 1);
  Status status;
  while (frames_[depth].next < frames_[depth].operations.size()) {
    const OperationId id = frames_[depth].operations[frames_[depth].next];
    const Lineage::Operation& operation = lineage_.operation(id);
    bool wanted = false;
    for (std::int32_t i = 0; i < operation.output_count; ++i) {
      wanted |= !lineage_.tensor(operation.first_output + i).defined;
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
  return status;
}

void Evictor::hold(TensorId id) {
  const StorageId storage = lineage_.tensor(id).storage;
  leave(storage);
  lineage_.lock(storage);
}

void Evictor::let_go(TensorId id) {
  const StorageId storage = lineage_.tensor(id).storage;
  lineage_.unlock(storage);
  enter(storage);
}

Status Evictor::hold_all(std::span<const TensorId> arguments) {
  const auto is_gone = [&](TensorId id) { return !lineage_.tensor(id).defined; };
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<TensorId> gone;
    std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(gone), is_gone);
    if (gone.empty()) {
      for (const TensorId argument : arguments) hold(argument);
      return ok_status();
    }
    PLIMSOLL_RETURN_IF_ERROR(restore(gone));
  }
  // They push each other out. One after the other, then, each staying, whichever may come first.
  Status status;
  for (std::size_t first = 0; first < arguments.size(); ++first) {
    std::size_t held = 0;
    const auto at = [&](std::size_t i) { return arguments[(first + i) % arguments.size()]; };
    for (status = ok_status(); held < arguments.size(); ++held) {
      const TensorId argument = at(held);
      if (is_gone(argument)) status = restore({&argument, 1});
      if (!status.ok()) break;
      hold(argument);
    }
    if (status.ok()) break;
    for (std::size_t i = 0; i < held; ++i) let_go(at(i));
  }
  return status;
}

Status Evictor::execute(OperationId id, bool again) {
  lineage_.touch(id);
  const std::vector<TensorId> arguments = lineage_.operation(id).arguments;
  PLIMSOLL_RETURN_IF_ERROR(hold_all(arguments));
  Status status = make_room(lineage_.operation(id).bytes);
  if (status.ok()) {
    lineage_.ran(id);
    if (again) {
      if (sink_ != nullptr) sink_->run_again(id);
      ++statistics_.recomputes;
      statistics_.recompute_seconds += lineage_.operation(id).seconds;
      if (statistics_.recompute_seconds > most_recompute_seconds_) {
        status = exhausted("bringing back: too much is computed again (limit " +
                           format_bytes(limit_bytes_) + ")");
      }
    }
    const Lineage::Operation& operation = lineage_.operation(id);
    for (std::int32_t i = 0; i < operation.output_count; ++i) {
      const StorageId storage = lineage_.tensor(operation.first_output + i).storage;
      if (!again) lineage_.touch_storage(storage);
      enter(storage);
    }
  }
  for (const TensorId argument : arguments) let_go(argument);
  return status;
}

Status Evictor::run(OperationId id) {
  restorations_ = 0;
  frames_.push_back({{id}, 0});
  await(id, 1);
  const Status status = execute(id, false);
  await(id, -1);
  frames_.pop_back();
  return status;
}

Status Evictor::bring_back(TensorId id) {
  restorations_ = 0;
  const TensorId tensors[] = {id};
  return lineage_.tensor(id).defined ? ok_status() : restore(tensors);
}

void Evictor::release(TensorId id) {
  lineage_.release(id);
  const StorageId storage = lineage_.tensor(id).storage;
  if (lineage_.storage(storage).handles > 0 || !lineage_.storage(storage).resident ||
      lineage_.storage(storage).locks > 0) {
    return;
  }
  leave(storage);
  lineage_.drop(storage);
  if (sink_ != nullptr) sink_->drop(storage);
}

void Evictor::pin(TensorId id) { hold(id); }

}  // namespace plimsoll::memory
