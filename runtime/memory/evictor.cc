// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/evictor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <string>
#include <unordered_set>
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
// together, and operations run again for one request, per operation known and at least.
constexpr std::size_t kMostFrames = 300;
constexpr int kMostRounds = 4;
constexpr std::int64_t kMostRunsPerOperation = 16;
constexpr std::int64_t kMostRuns = 256;

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

Evictor::Cost Evictor::cost_to_bring_back(StorageId id, int* gone) {
  ++mark_;
  const Lineage::Storage& given_up = lineage_.storage(id);
  Cost cost{given_up.seconds, std::numeric_limits<double>::infinity()};
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
      ++visited;
      if (storage.stored) {
        cost.run_again += sink_->store_price(storage.bytes).load_seconds;
      } else {
        cost.run_again += storage.seconds;
        stack_.push_back(needed);
      }
    });
  }
  if (gone != nullptr) *gone = visited;
  for (const TensorId tensor : given_up.tensors) {
    if (lineage_.tensor(tensor).is_source) cost.run_again = cost.copy;
  }
  if (sink_ != nullptr) {
    const EvictionSink::StorePrice price = sink_->store_price(given_up.bytes);
    cost.copy = price.store_seconds + price.load_seconds;
  }
  if (given_up.handles == 0) {
    cost.run_again *= kUnheldCost;
    cost.copy *= kUnheldCost;
  }
  return cost;
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
  const double seconds = cost_to_bring_back(id).least();
  if (!std::isfinite(seconds)) return;
  enter_queue(id, queue_of(seconds / static_cast<double>(storage.bytes)), true);
}

// Those that could not go before, too: a tier may have got room.
void Evictor::enter_all() {
  for (StorageId id = 0; id < lineage_.storage_count(); ++id) enter(id);
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
        const double seconds = cost_to_bring_back(id).least();
        if (!std::isfinite(seconds)) {
          leave(id);
          continue;
        }
        const double cost = seconds / static_cast<double>(storage.bytes);
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
  awaited_.clear();
  for (auto frame = frames_.rbegin(); frame != frames_.rend(); ++frame) {
    for (std::size_t i = frame->next; i < frame->operations.size(); ++i) {
      for (const TensorId argument : lineage_.operation(frame->operations[i]).arguments) {
        const StorageId id = lineage_.tensor(argument).storage;
        Place& at = place(id);
        if (at.mark == mark_) continue;
        at.mark = mark_;
        const Lineage::Storage& storage = lineage_.storage(id);
        if (storage.resident && storage.locks == 0 && storage.bytes > 0) awaited_.push_back(id);
      }
    }
  }
  while (!awaited_.empty()) {
    if (std::isfinite(cost_to_bring_back(awaited_.back()).least())) return awaited_.back();
    awaited_.pop_back();
  }
  return -1;
}

void Evictor::give_up(StorageId id) {
  leave(id);
  const Cost cost = cost_to_bring_back(id);
  if (cost.copy < cost.run_again) {
    sink_->store(id);
    lineage_.set_stored(id, true);
    ++statistics_.stores;
  }
  lineage_.drop(id);
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
    if (victim < 0) {
      return exhausted("no room for " + format_bytes(bytes) + " beside " +
                       format_bytes(lineage_.used_bytes()) + " that can't be given up (limit " +
                       format_bytes(limit_bytes_) + ")");
    }
    give_up(victim);
  }
  return ok_status();
}

double Evictor::price_of_room(std::int64_t bytes) {
  // Those that would go leave their queues for as long as it takes to count them.
  std::vector<StorageId> out;
  double seconds = 0;
  std::int64_t used = lineage_.used_bytes();
  while (used + bytes > limit_bytes_) {
    const StorageId victim = pick();
    if (victim < 0) {
      seconds = std::numeric_limits<double>::infinity();
      break;
    }
    seconds += cost_to_bring_back(victim).least();
    used -= lineage_.storage(victim).bytes;
    leave(victim);
    out.push_back(victim);
  }
  for (auto id = out.rbegin(); id != out.rend(); ++id) {
    const Lineage::Storage& storage = lineage_.storage(*id);
    const double cost = cost_to_bring_back(*id).least() / static_cast<double>(storage.bytes);
    enter_queue(*id, queue_of(cost), false);
  }
  return seconds;
}

bool Evictor::is_fixed(StorageId id) {
  return lineage_.storage(id).resident && !std::isfinite(cost_to_bring_back(id).least());
}

std::int64_t Evictor::fixed_bytes() {
  std::int64_t bytes = 0;
  for (StorageId id = 0; id < lineage_.storage_count(); ++id) {
    if (is_fixed(id)) bytes += lineage_.storage(id).bytes;
  }
  return bytes;
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

std::int64_t Evictor::most_runs() const {
  return std::max(kMostRuns, kMostRunsPerOperation * lineage_.operation_count());
}

Status Evictor::pushes_itself_out() const {
  return exhausted("bringing back: what is needed pushes itself out (limit " +
                   format_bytes(limit_bytes_) + ")");
}

Status Evictor::restore(std::span<const TensorId> tensors) {
  if (frames_.size() > kMostFrames || runs_ > most_runs()) return pushes_itself_out();
  // All operations that it takes, in the order they were recorded in.
  wanted_.resize(static_cast<std::size_t>(lineage_.operation_count()), false);
  std::vector<OperationId> needed;
  std::vector<TensorId> open(tensors.begin(), tensors.end());
  while (!open.empty()) {
    const Lineage::Tensor& tensor = lineage_.tensor(open.back());
    open.pop_back();
    // What is stored is loaded when it is needed.
    if (tensor.defined || lineage_.storage(tensor.storage).stored ||
        wanted_[static_cast<std::size_t>(tensor.producer)]) {
      continue;
    }
    wanted_[static_cast<std::size_t>(tensor.producer)] = true;
    needed.push_back(tensor.producer);
    const auto& arguments = lineage_.operation(tensor.producer).arguments;
    open.insert(open.end(), arguments.begin(), arguments.end());
  }
  std::sort(needed.begin(), needed.end(), [&](OperationId a, OperationId b) {
    return lineage_.operation(a).order < lineage_.operation(b).order;
  });
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
  lineage_.set_stored(id, false);
  ++statistics_.loads;
  sink_->load(id);
  enter(id);
  return ok_status();
}

void Evictor::lock(TensorId id) {
  const StorageId storage = lineage_.tensor(id).storage;
  leave(storage);
  lineage_.lock(storage);
}

void Evictor::unlock(TensorId id) {
  const StorageId storage = lineage_.tensor(id).storage;
  lineage_.unlock(storage);
  enter(storage);
}

void Evictor::let_go(std::span<const TensorId> tensors) {
  for (const TensorId tensor : tensors) unlock(tensor);
}

Status Evictor::hold_all(std::span<const TensorId> arguments) {
  const auto is_gone = [&](TensorId id) { return !lineage_.tensor(id).defined; };
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<TensorId> gone;
    std::copy_if(arguments.begin(), arguments.end(), std::back_inserter(gone), is_gone);
    if (gone.empty()) {
      for (const TensorId argument : arguments) lock(argument);
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
      lock(argument);
    }
    if (status.ok()) break;
    for (std::size_t i = 0; i < held; ++i) unlock(at(i));
  }
  return status;
}

Status Evictor::execute(OperationId id, bool again) {
  lineage_.touch(id);
  const std::vector<TensorId> arguments = lineage_.operation(id).arguments;
  PLIMSOLL_RETURN_IF_ERROR(hold_all(arguments));
  Status status = make_room_for(id, again);
  if (status.ok()) {
    lineage_.ran(id);
    if (again) {
      if (sink_ != nullptr) sink_->run_again(id);
      if (++runs_ > most_runs()) status = pushes_itself_out();
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
  let_go(arguments);
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

Status Evictor::bring_back(TensorId id) {
  runs_ = 0;
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

void Evictor::pin(TensorId id) { lock(id); }

Status Evictor::hold(std::span<const TensorId> tensors) {
  runs_ = 0;
  return hold_all(tensors);
}

void Evictor::ran(OperationId id) {
  lineage_.touch(id);
  lineage_.ran(id);
  const Lineage::Operation& operation = lineage_.operation(id);
  const TensorId first = operation.first_output, end = first + operation.output_count;
  int gone = 0;
  for (TensorId output = first; output < end && gone < kMostVisited; ++output) {
    cost_to_bring_back(lineage_.tensor(output).storage, &gone);
  }
  for (TensorId output = first; output < end; ++output) {
    if (gone >= kMostVisited) lineage_.make_source(output);
    lineage_.touch_storage(lineage_.tensor(output).storage);
    enter(lineage_.tensor(output).storage);
  }
  if (gone >= kMostVisited && first < end) forget(first);
}

TensorId Evictor::add_source(std::int64_t bytes) {
  const TensorId id = lineage_.add_source(bytes);
  enter(lineage_.tensor(id).storage);
  return id;
}

bool Evictor::is_dispensable(TensorId id, std::vector<TensorId>& made) const {
  std::vector<TensorId> open{id};
  std::unordered_set<OperationId> seen;
  while (!open.empty()) {
    const Lineage::Tensor& read = lineage_.tensor(open.back());
    open.pop_back();
    for (const Lineage::Reader& reader : read.readers) {
      if (!seen.insert(reader.operation).second) continue;
      const Lineage::Operation& operation = lineage_.operation(reader.operation);
      for (std::int32_t i = 0; i < operation.output_count; ++i) {
        const TensorId output = operation.first_output + i;
        const Lineage::Storage& storage = lineage_.storage_of(output);
        if (storage.resident || storage.stored) {
          made.push_back(output);
        } else if (storage.handles > 0 && !lineage_.tensor(output).is_source) {
          return false;
        } else {
          open.push_back(output);
        }
      }
    }
  }
  return true;
}

void Evictor::cut_off(const std::vector<TensorId>& made) {
  for (const TensorId id : made) {
    lineage_.make_source(id);
    const StorageId storage = lineage_.tensor(id).storage;
    if (lineage_.storage(storage).resident) {
      leave(storage);
      enter(storage);
    }
  }
  for (const TensorId id : made) forget(id);
}

// Forgets backwards from `id`: what has lost its last reader, and is held by nobody, goes as well.
void Evictor::forget(TensorId id) {
  unneeded_.assign(1, id);
  while (!unneeded_.empty()) {
    const TensorId tensor = unneeded_.back();
    unneeded_.pop_back();
    const OperationId producer = lineage_.tensor(tensor).producer;
    if (producer < 0) continue;
    const StorageId at = lineage_.tensor(tensor).storage;
    const Lineage::Storage& storage = lineage_.storage(at);
    if (storage.handles == 0 && lineage_.tensor(tensor).readers.empty() && storage.locks == 0) {
      if (storage.resident) {
        leave(at);
        lineage_.drop(at);
        if (sink_ != nullptr) sink_->drop(at);
      }
      if (storage.stored) {
        lineage_.set_stored(at, false);
        if (sink_ != nullptr) sink_->discard_copy(at);
      }
    }
    if (lineage_.forget_unneeded(tensor, unneeded_) && sink_ != nullptr) sink_->forget(producer);
  }
}

void Evictor::discard(TensorId id) {
  lineage_.release(id);
  const StorageId at = lineage_.tensor(id).storage;
  const Lineage::Storage& storage = lineage_.storage(at);
  if (storage.handles > 0 || storage.locks > 0) return;
  if (storage.resident || storage.stored) {
    if (lineage_.tensor(id).is_source) {
      std::vector<TensorId> made;
      // Stays until what is gone has come back, or is not wanted any more.
      if (!is_dispensable(id, made)) return;
      cut_off(made);
      // Its last reader may have taken it along.
      if (lineage_.tensor(id).producer < 0) return;
    }
    if (storage.resident) {
      leave(at);
      lineage_.drop(at);
      if (sink_ != nullptr) sink_->drop(at);
    }
    if (lineage_.storage(at).stored) {
      lineage_.set_stored(at, false);
      if (sink_ != nullptr) sink_->discard_copy(at);
    }
  }
  forget(id);
}

bool Evictor::can_consume(TensorId id) {
  std::vector<TensorId> made;
  return is_dispensable(id, made);
}

void Evictor::consume(TensorId id) {
  std::vector<TensorId> made;
  is_dispensable(id, made);
  lineage_.make_source(id);
  const StorageId at = lineage_.tensor(id).storage;
  lineage_.unlock(at);
  lineage_.drop(at);
  cut_off(made);
  forget(id);
}

void Evictor::take_back(StorageId id) {
  lineage_.set_stored(id, false);
  lineage_.load(id);
  enter(id);
}

bool Evictor::lose(StorageId id) {
  leave(id);
  lineage_.drop(id);
  return !lineage_.tensor(lineage_.storage(id).tensors[0]).is_source;
}

}  // namespace plimsoll::memory
