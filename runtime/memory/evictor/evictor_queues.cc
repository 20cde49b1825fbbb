// SPDX-License-Identifier: Apache-2.0
// What it costs an Evictor to give a storage up, and the order in which they go.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/index.h"
#include "runtime/memory/evictor/evictor.h"

// Finding the least of c / (bytes * staleness^a) without looking at all.
//
// The cost per byte of a storage changes only when something it needs goes or comes back; its
// staleness changes all the time, but for all storages alike: the order of last uses stays. So
// storages stand in queues by the magnitude of cost per byte (four queues per doubling), each in
// order of last use. Within a queue the stalest has, up to the width of the magnitude, the least
// score; so an eviction looks at the first of each queue that is not empty, whatever the number of
// storages.
//
// Example: three storages of 1 MB. A: 1 ms to restore, idle for 10 ms; B: 1 ms, idle for 100 ms;
// C: 8 ms, idle for 1 s. A and B are in one queue, B first; C is 12 queues up. Scores with a = 0.35
// (ms, MB): B 1 / 100^0.35 = 0.20, C 8 / 1000^0.35 = 0.71. B is evicted.
//
// What went or came back since a storage was put in a queue may have changed its cost. The first of
// a queue is therefore priced anew when it is looked at, and put where it belongs; up to kMostLooks
// times, after which what was found counts. The bits in `occupied_` say which queues hold
// something.

namespace plimsoll::memory {
namespace {

// How much it makes a storage dispensable that nobody holds it; chosen as kStalenessExponent.
constexpr double kUnreferencedCost = 0.25;
// How much it does that its user asks for it: before all others of less than so many times its
// cost.
constexpr double kWishedFor = 1.0 / (1 << 20);
// Of each queue, so many are looked at until one stands where it belongs.
constexpr int kMostLooks = 16;
// Queues per doubling of cost per byte, and the number of the one for a second per byte.
constexpr double kQueuesPerDoubling = 4;
constexpr double kQueueOfOne = 200;

}  // namespace

Evictor::Place& Evictor::place(StorageId id) {
  if (at(id) >= places_.size()) {
    places_.resize(at(lineage_.storage_count()) * 2);
  }
  return places_[at(id)];
}

// Two ways to restore a storage: run again what made it, with everything that needs and that is
// gone as well, or copy it back from where a copy was kept. The walk over what is gone stops after
// kMostVisited storages: what it has counted by then is a lower bound, and dear enough to stay.
Evictor::Cost Evictor::cost_to_restore(StorageId id, int* gone) {
  ++mark_;
  const Lineage::Storage& evicted = lineage_.storage(id);
  Cost cost{evicted.seconds, std::numeric_limits<double>::infinity(), evicted.bytes, 0};
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
        cost.recompute += sink_->load_seconds(needed);
      } else {
        cost.recompute += storage.seconds;
        stack_.push_back(needed);
      }
    });
  }
  if (gone != nullptr) *gone = visited;
  for (const TensorId tensor : evicted.tensors) {
    if (lineage_.tensor(tensor).is_source) cost.recompute = cost.copy;
  }
  if (sink_ != nullptr) {
    const EvictionSink::StorePrice price = sink_->store_price(id, evicted.bytes);
    cost.copy = price.store_seconds + price.load_seconds;
    cost.kept_bytes = price.kept_bytes;
    grant_wish(id, cost);
  }
  if (evicted.handles == 0) {
    cost.recompute *= kUnreferencedCost;
    cost.copy *= kUnreferencedCost;
  }
  return cost;
}

void Evictor::grant_wish(StorageId id, Cost& cost) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  switch (sink_->wish(id)) {
    case EvictionSink::Wish::none:
      return;
    case EvictionSink::Wish::keep:
      cost.recompute = cost.copy = kNever;
      return;
    case EvictionSink::Wish::recompute:
      if (!std::isfinite(cost.recompute)) return;
      cost.copy = kNever;
      break;
    case EvictionSink::Wish::copy:
      if (!std::isfinite(cost.copy)) return;
      cost.recompute = kNever;
      break;
  }
  cost.weight = kWishedFor;
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
  if (at.queue >= 0 || at.awaited > 0 || !storage.resident || storage.pins > 0 ||
      storage.bytes == 0) {
    return;
  }
  const Cost cost = cost_to_restore(id);
  if (cost.is_finite()) enter_queue(id, queue_of(cost.per_byte()), true);
}

// Those that could not go before, too: a tier may have got room.
void Evictor::enter_all() {
  for (StorageId id = 0; id < lineage_.storage_count(); ++id) enter(id);
}

void Evictor::leave_queue(StorageId id) {
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
        const StorageId id = queues_[at(number)].first;
        if (id < 0) break;
        const Cost found = cost_to_restore(id);
        if (!found.is_finite()) {
          leave_queue(id);
          continue;
        }
        const double cost = found.per_byte();
        const int now = queue_of(cost);
        if (now != number) {
          leave_queue(id);
          enter_queue(id, now, false);
        }
        const double score = cost / staleness(id);
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

// While tensors are restored, everything idle may be gone and what is left is awaited by
// operations that are about to run. Then the one that is needed last goes: what comes before it
// needs the bytes more (Belady's rule, on the known future of the restoration).
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
        if (storage.resident && storage.pins == 0 && storage.bytes > 0) awaited_.push_back(id);
      }
    }
  }
  while (!awaited_.empty()) {
    if (cost_to_restore(awaited_.back()).is_finite()) return awaited_.back();
    awaited_.pop_back();
  }
  return -1;
}

StorageId Evictor::pick_copy() const {
  for (StorageId id = 0; id < lineage_.storage_count(); ++id) {
    const Lineage::Storage& storage = lineage_.storage(id);
    if (storage.kept_bytes > 0 && !lineage_.tensor(storage.tensors[0]).is_source) return id;
  }
  return -1;
}

double Evictor::staleness(StorageId id) const {
  const double idle = lineage_.clock() - lineage_.storage(id).last_use;
  return std::pow(std::max(idle, kLeastIdleSeconds), kStalenessExponent);
}

bool Evictor::is_fixed(StorageId id) {
  return lineage_.storage(id).resident && !cost_to_restore(id).is_finite();
}

std::int64_t Evictor::fixed_bytes() {
  std::int64_t bytes = 0;
  for (StorageId id = 0; id < lineage_.storage_count(); ++id) {
    const Lineage::Storage& storage = lineage_.storage(id);
    if (is_fixed(id)) bytes += storage.bytes;
    if (storage.kept_bytes > 0 && lineage_.tensor(storage.tensors[0]).is_source) {
      bytes += storage.kept_bytes;
    }
  }
  return bytes;
}

// A dry run: victims leave their queues, their costs are added up, and they are put back in the
// reverse order. Costs of later victims do not see that the earlier ones would be gone: the price
// is a lower bound.
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
    const Cost cost = cost_to_restore(victim);
    seconds += cost.seconds();
    used -= cost.freed_bytes();
    leave_queue(victim);
    out.push_back(victim);
  }
  for (auto id = out.rbegin(); id != out.rend(); ++id) {
    enter_queue(*id, queue_of(cost_to_restore(*id).per_byte()), false);
  }
  return seconds;
}

}  // namespace plimsoll::memory
