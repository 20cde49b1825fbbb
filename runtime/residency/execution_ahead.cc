// SPDX-License-Identifier: Apache-2.0
// What a Worker does ahead of its turn, beside what it runs.
#include <algorithm>
#include <array>
#include <utility>

#include "runtime/residency/execution.h"

namespace plimsoll::trace {
namespace {

// What is known of a tier up to some place in the queue.
struct TierAhead {
  memory::Tier* tier = nullptr;
  bool awaited = false;         // a store before it has no room yet, and comes first
  std::int64_t plan_bytes = 0;  // of the runs before it, each at its time
};

std::int64_t free_bytes(const memory::Tier& tier) {
  const memory::TierStatistics now = tier.statistics();
  return now.limit_bytes - now.used_bytes - now.reserved_bytes;
}

}  // namespace

void Worker::mark(Value& value, Value::Use use) {
  if (!is_untouched(value) && value.use == Value::Use::written) return;
  value.walk = walk_;
  value.use = use;
}

void Worker::mark_uses(const Work& work) {
  if (work.value != nullptr) mark(*work.value, Value::Use::written);
  if (work.execution == nullptr) return;
  const Execution& execution = *work.execution;
  for (std::size_t i = 0; i < execution.parameters.size(); ++i) {
    const bool donated = execution.executable->residency(static_cast<int>(i)) ==
                         planner::ParameterResidency::donated;
    mark(*execution.parameters[i], donated ? Value::Use::written : Value::Use::read);
  }
  for (const auto& weak : execution.outputs) {
    if (const auto output = weak.lock()) mark(*output, Value::Use::written);
  }
}

// Only what changes nothing for what comes before: that finds the same values, and no less room
// than it needs. The front one is left alone, and while an execution may have to run again, all is
// done in turn.
//
// Example: the queue holds run A, store x, load y, run B (reads y). While A runs, the store may
// begin (A does not write x) and so may the load, if y fits beside all that A and whatever stands
// before it still take. When the load's turn comes the bytes are there, and B starts at once.
//
// The walk goes over the queue from the front and marks on each value what has been done with it so
// far (`walk`, `use`). A work may be done ahead if the works before it leave its value alone; for
// stores reading it is no obstacle. Marks carry the number of the walk, so that none has to be
// cleared.
void Worker::look_ahead() {
  if (waiting_transfers_ == 0) return;
  ++walk_;
  for (const Opens* opens : {&storing_, &loading_}) {
    for (const auto& open : *opens) {
      if (open->due) mark(*open->value, Value::Use::written);
    }
  }
  PerTier<TierAhead> tiers;
  for (const MemorySpace tier : kTiers) tiers[tier].tier = budget_->tiers()[tier].get();
  bool loads = false;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    Work& work = queue_[i];
    const bool may = i > 0 && !work.done && !work.failed && retryable_.empty();
    if (may && work.movement == Movement::drop) drop_ahead(work);
    if (work.movement == Movement::store && !work.done) {
      TierAhead& at = tiers[*std::find_if(kTiers.begin(), kTiers.end(), [&](MemorySpace tier) {
        return tiers[tier].tier == work.tier;
      })];
      if (may) store_ahead(work, !at.awaited, at.plan_bytes);
      at.awaited |= !work.done && open_of(storing_, work.value.get(), false) == nullptr;
    }
    work.could_begin = may && work.movement == Movement::load && can_load_ahead(work);
    loads |= work.could_begin;
    if (work.done) continue;
    mark_uses(work);
    if (work.execution != nullptr) {
      const planner::Plan& plan = work.execution->executable->plan();
      for (const MemorySpace tier : kTiers) {
        tiers[tier].plan_bytes = std::max(tiers[tier].plan_bytes, plan.tier_bytes[tier]);
      }
    }
  }
  if (loads) begin_loads();
}

void Worker::drop_ahead(Work& work) {
  if (!is_untouched(*work.value) || !work.value->device) return;
  ++work.value->generation;
  work.value->device = {};
  work.done = true;
}

void Worker::store_ahead(Work& work, bool may_begin, std::int64_t plan_bytes) {
  Value& value = *work.value;
  const auto open = open_of(storing_, &value, false);
  if (open == nullptr) {
    const bool made = is_untouched(value) || value.use == Value::Use::read;
    if (!may_begin || !made || !value.device || value.copy != nullptr ||
        free_bytes(*work.tier) < value.bytes + plan_bytes) {
      return;
    }
    work.failed = !begin_store(work, false);
  } else if (open->ended && !open->status.ok()) {
    std::erase(storing_, open);
    value.copy.reset();
    work.failed = true;
  } else if (open->ended && is_untouched(value)) {
    std::erase(storing_, open);
    ++value.generation;
    value.device = {};
    work.done = true;
  }
}

bool Worker::can_load_ahead(Work& work) {
  const Value& value = *work.value;
  const auto open = open_of(loading_, &value, false);
  if (open == nullptr) return is_untouched(value) && value.copy != nullptr && !value.device;
  if (open->ended && !open->status.ok()) {
    std::erase(loading_, open);
    work.failed = true;
  }
  return false;
}

// Each for which there is room from now on, beside all that comes before it.
//
// `available` follows what is free after each work, `least` the minimum so far: a load that takes
// its bytes now takes them at every time until its turn.
void Worker::begin_loads() {
  std::int64_t available = budget_->available();
  for (const auto& open : storing_) {
    if (open->due && open->drop) available += open->value->bytes;
  }
  std::int64_t least = available;
  const auto take = [&](std::int64_t bytes, std::int64_t kept) {
    least = std::min(least, available - bytes);
    available -= kept;
  };
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const Work& work = queue_[i];
    if (work.done) continue;
    switch (work.movement) {
      case Movement::run: {
        const std::int64_t bytes = work.execution->needed_bytes();
        if (i == 0 && front_is_admitted_) available += bytes;
        take(i == 0 && front_is_admitted_ ? 0 : bytes, work.execution->kept_bytes());
        break;
      }
      case Movement::drop:
      case Movement::store:
        available += work.value->bytes;
        break;
      case Movement::load:
        if (open_of(loading_, work.value.get(), false) != nullptr) break;
        if (work.could_begin && least >= work.value->bytes && begin_load(work)) {
          least -= work.value->bytes;
          available -= work.value->bytes;
        } else {
          take(work.value->bytes, work.value->bytes);
        }
        break;
      case Movement::encode:
        take(work.bytes, work.bytes - work.value->bytes);
        break;
      case Movement::decode:  // and what it decodes goes
        take(work.value->bytes, work.value->bytes);
        break;
      case Movement::discard_copy:
        break;
    }
  }
}

// Its room stays a run's until it is due: whoever waits for it waits for a run that ends.
bool Worker::begin_load(const Work& work) {
  const std::int64_t bytes = work.value->bytes;
  memory::Admission& admission = budget_->admission();
  if (holds_loads_back_ || budget_->available() < bytes || admission.statistics().waiting > 0) {
    return false;
  }
  auto admitted = admission.admit({bytes, 0, 0}, "a tensor that comes back", {}, false);
  if (!admitted.ok()) return false;
  auto device =
      admitted->reservation().allocate(bytes, memory::Tag::outputs, "a tensor that comes back");
  if (!device.ok()) return false;
  const auto open = std::make_shared<Open>();
  open->value = work.value;
  open->tier = work.tier;
  open->due = false;
  open->admitted = std::move(*admitted);
  open->device = std::move(*device);
  begin_load_to(open, open->device.data());
  return true;
}

std::shared_ptr<Worker::Open> Worker::open_of(const Opens& opens, const Value* value, bool due) {
  for (const auto& open : opens) {
    if (open->value.get() == value && open->due == due) return open;
  }
  return nullptr;
}

bool Worker::give_back_load() {
  std::unique_lock lock(mutex_);
  for (auto open = loading_.rbegin(); open != loading_.rend(); ++open) {
    if ((*open)->due) continue;
    give_back_load(*open, lock);
    return true;
  }
  return false;
}

// The lock is held before and after.
void Worker::give_back_load(std::shared_ptr<Open> open, std::unique_lock<std::mutex>& lock) {
  // Out of sight, so that nothing else is done with it; its work is begun again.
  std::erase(loading_, open);
  lock.unlock();
  (void)open->tier->in().wait(*open->transfer);
  lock.lock();
  open->device = {};
  open->admitted = {};
}

}  // namespace plimsoll::trace
