// SPDX-License-Identifier: Apache-2.0
// How a Worker moves values, beside what it runs.
#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/alignment.h"
#include "runtime/residency/execution.h"

namespace plimsoll::trace {

void Worker::move_now(const Work& work) {
  switch (work.movement) {
    case Movement::run:
      break;
    case Movement::drop:
      drop_now(work.value);
      break;
    case Movement::store:
      store_now(work);
      break;
    case Movement::load:
      load_now(work.value, *work.tier);
      break;
    case Movement::encode:
      encode_now(work);
      break;
    case Movement::decode:
      decode_now(work.value);
      break;
    case Movement::discard_copy:
      wait_for_due(work.value.get());
      work.value->copy.reset();
      work.value->encoded = {};
      break;
  }
}

void Worker::drop_now(const std::shared_ptr<Value>& value) {
  wait_for_due(value.get());
  free_device_bytes(value);
}

void Worker::free_device_bytes(const std::shared_ptr<Value>& value) {
  auto reader = retryable_reader(value.get());
  const std::lock_guard lock(mutex_);
  if (reader != nullptr) {
    deferred_.push_back({std::move(reader), value, value->generation});
    return;
  }
  ++value->generation;
  value->device = {};
}

void Worker::drop_deferred() {
  std::vector<std::shared_ptr<Value>> due;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(deferred_, [&](const Deferred& deferred) {
      const auto reader = deferred.reader.lock();
      const bool waits =
          reader != nullptr && std::any_of(retryable_.begin(), retryable_.end(),
                                           [&](const auto& weak) { return weak.lock() == reader; });
      if (waits) return false;
      if (deferred.value->generation == deferred.generation) due.push_back(deferred.value);
      return true;
    });
  }
  for (const auto& value : due) drop_now(value);
}

void Worker::not_stored(const std::shared_ptr<Value>& value) {
  const std::lock_guard lock(mutex_);
  failures_.stores.push_back(value);
  has_failures_.store(true, std::memory_order_release);
}

// With the mutex held. Whether there was room for the copy.
bool Worker::begin_store(const Work& work, bool due) {
  const std::shared_ptr<Value>& value = work.value;
  auto copy = TierCopy::create(*work.tier, value->bytes, work.codes ? value->element_bytes : 0,
                               fail_codec_in_);
  if (!copy.ok()) return false;
  value->copy = std::move(*copy);
  value->tier = work.tier;
  const auto open = std::make_shared<Open>();
  open->value = value;
  open->tier = work.tier;
  open->due = due;
  open->number = work.number;
  open->transfer = work.tier->out().enqueue(
      value->bytes,
      [to = value->copy.get(), from = value->device.data()](device::Stream& stream) {
        return to->store(from, stream);
      },
      [this, open](const Status& status) {
        const std::lock_guard lock(mutex_);
        if (status.ok()) stored(*open);
        ended(*open, status);
      });
  storing_.push_back(open);
  return true;
}

void Worker::stored(const Open& open) {
  const std::int64_t given = open.value->bytes, taken = open.value->copy->held_bytes();
  stored_bytes_.given += given;
  stored_bytes_.taken += taken;
  if (taken < given) savings_.push_back({open.value, open.number, given - taken});
}

// With the mutex held.
void Worker::begin_load_to(const std::shared_ptr<Open>& open, void* to) {
  open->transfer = open->tier->in().enqueue(
      open->value->bytes,
      [from = open->value->copy.get(), to](device::Stream& stream) {
        return from->load(to, stream);
      },
      [this, open](const Status& status) {
        const std::lock_guard lock(mutex_);
        ended(*open, status);
      });
  loading_.push_back(open);
}

void Worker::ended(Open& open, const Status& status) {
  open.ended = true;
  open.status = status;
  look_ahead();
}

void Worker::store_now(const Work& work) {
  const std::shared_ptr<Value>& value = work.value;
  {
    const std::lock_guard lock(mutex_);
    if (const auto open = open_of(storing_, value.get(), false)) {
      open->due = true;
      return;
    }
  }
  wait_for_due(value.get());
  if (!value->device) return not_stored(value);
  // Copies that are on their way back give their room up when they have arrived.
  do {
    const std::lock_guard lock(mutex_);
    if (begin_store(work, true)) return;
  } while (wait_for_load());
  not_stored(value);
}

bool Worker::wait_for_store() {
  std::shared_ptr<Open> open;
  {
    const std::lock_guard lock(mutex_);
    const auto first = std::find_if(storing_.begin(), storing_.end(),
                                    [](const auto& candidate) { return candidate->due; });
    if (first == storing_.end()) return false;
    open = *first;
  }
  const Status status = open->tier->out().wait(*open->transfer);
  if (!status.ok()) {
    open->value->copy.reset();
    not_stored(open->value);
  } else if (open->drop) {
    free_device_bytes(open->value);
  }
  const std::lock_guard lock(mutex_);
  std::erase(storing_, open);
  return true;
}

void Worker::load_now(const std::shared_ptr<Value>& value, memory::Tier& tier) {
  {
    std::unique_lock lock(mutex_);
    // It may not have left yet.
    if (const auto leaving = open_of(storing_, value.get(), true)) leaving->drop = false;
    if (const auto open = open_of(loading_, value.get(), false)) {
      // Those who wait for room are not passed by what came later.
      if (budget_->admission().statistics().waiting == 0) {
        value->device = std::move(open->device);
        open->due = true;
        open->admitted = {};
        return;
      }
      give_back_load(open, lock);
    }
  }
  wait_for_due(value.get());
  Status status;
  if (!value->device) {
    if (value->copy == nullptr) {
      status = internal_error("executing: a value's copy is gone");
    } else {
      auto allocation = allocate(value->bytes, memory::Tag::outputs, "a tensor that comes back");
      status = allocation.status();
      if (status.ok()) value->device = std::move(*allocation);
    }
  } else {
    value->copy.reset();
  }
  if (status.ok() && value->copy != nullptr) {
    const auto open = std::make_shared<Open>();
    open->value = value;
    open->tier = &tier;
    const std::lock_guard lock(mutex_);
    begin_load_to(open, value->device.data());
    return;
  }
  end_load(value, status);
}

Status Worker::launch(const device::Kernel& kernel, const void* from, void* to) {
  if (fail_codec_in_ > 0 && --fail_codec_in_ == 0) {
    return data_loss(kernel.name() + ": fault injected");
  }
  const void* const inputs[] = {from};
  void* const outputs[] = {to};
  PLIMSOLL_RETURN_IF_ERROR(stream_->launch(kernel, {inputs, outputs}));
  return stream_->synchronize();
}

Status Worker::encode(Value& value, std::int64_t bytes) {
  // A copy that is there still is of no use, as something has failed with it.
  if (!value.device) return internal_error("executing: a value to encode is not there");
  PLIMSOLL_ASSIGN_OR_RETURN(
      value.encoded, allocate(bytes, memory::Tag::arena, "a tensor in fewer bytes", {0, bytes, 0}));
  const Status status = launch(*value.codec.encode, value.device.data(), value.encoded.data());
  if (!status.ok()) value.encoded = {};
  return status;
}

Status Worker::decode(Value& value) {
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto device, allocate(value.bytes, memory::Tag::outputs, "a tensor that comes back"));
  PLIMSOLL_RETURN_IF_ERROR(launch(*value.codec.decode, value.encoded.data(), device.data()));
  const std::lock_guard lock(mutex_);
  value.device = std::move(device);
  value.encoded = {};
  return ok_status();
}

void Worker::encode_now(const Work& work) {
  const std::shared_ptr<Value>& value = work.value;
  wait_for_due(value.get());
  if (value->device) value->codec = work.codec;
  if (!encode(*value, work.bytes).ok()) return not_stored(value);
  drop_now(value);
}

void Worker::decode_now(const std::shared_ptr<Value>& value) {
  wait_for_due(value.get());
  Status status;
  if (value->device) {  // it has not left
    value->encoded = {};
  } else if (value->encoded) {
    status = decode(*value);
  } else {
    status = internal_error("executing: a value's copy is gone");
  }
  end_load(value, status);
}

Status Worker::load_again(Value& value) {
  if (value.encoded) return decode(value);
  PLIMSOLL_ASSIGN_OR_RETURN(
      auto device, allocate(value.bytes, memory::Tag::outputs, "a tensor that comes back"));
  const auto transfer = value.tier->in().enqueue(
      value.bytes, [from = value.copy.get(), to = device.data()](device::Stream& stream) {
        return from->load(to, stream);
      });
  PLIMSOLL_RETURN_IF_ERROR(value.tier->in().wait(*transfer));
  const std::lock_guard lock(mutex_);
  value.device = std::move(device);
  value.copy.reset();
  return ok_status();
}

// Tries a load again that has failed.
void Worker::fetch(Value& value) {
  value.error = load_again(value);
  if (!value.error.ok()) return;
  const std::lock_guard lock(mutex_);
  if (value.pending == 0) value.state.store(ValueState::ready, std::memory_order_release);
}

bool Worker::wait_for_load() {
  std::shared_ptr<Open> open;
  {
    const std::lock_guard lock(mutex_);
    const auto first = std::find_if(loading_.begin(), loading_.end(),
                                    [](const auto& candidate) { return candidate->due; });
    if (first == loading_.end()) return false;
    open = *first;
  }
  wait_for_load(open);
  return true;
}

void Worker::wait_for_load(const std::shared_ptr<Open>& open) {
  const Status status = open->tier->in().wait(*open->transfer);
  if (status.ok()) {
    open->value->copy.reset();
  } else {
    open->value->device = {};
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase(loading_, open);
  }
  end_load(open->value, status);
}

void Worker::end_load(const std::shared_ptr<Value>& value, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    ++value->generation;
    if (!status.ok()) {
      if (first_error_.ok()) first_error_ = status;
      has_failures_.store(true, std::memory_order_release);
    }
    value->error = status;
    if (--value->pending == 0) {
      value->state.store(status.ok() ? ValueState::ready : ValueState::failed,
                         std::memory_order_release);
    }
  }
  changed_.notify_all();
}

void Worker::wait_for_due(const Value* value) {
  const auto due = [&](const Opens& opens) {
    const std::lock_guard lock(mutex_);
    return open_of(opens, value, true);
  };
  if (const auto open = due(loading_)) return wait_for_load(open);
  while (due(storing_) != nullptr) wait_for_store();
}

Result<memory::Allocation> Worker::allocate(std::int64_t bytes, memory::Tag tag,
                                            std::string_view what,
                                            const memory::ArenaParts& parts) {
  PLIMSOLL_ASSIGN_OR_RETURN(memory::Admitted admitted, admit(aligned_bytes(bytes), what));
  return admitted.reservation().allocate(bytes, tag, what, parts);
}

// Runs of other threads share the budget, and are waited for; but not while loads that are not due
// keep room that somebody else may be waiting for.
//
// Waiting for bytes while holding bytes that others may be waiting for is how deadlocks are made.
// So before the worker waits for other threads' runs, it waits for its own stores (their bytes
// become free by themselves) and gives back loads that were begun ahead of their turn. Only when it
// holds nothing of that kind may it wait.
Result<memory::Admitted> Worker::admit(std::int64_t bytes, std::string_view what) {
  // While it waits for more than stores, and once something was given back for it, none begins.
  struct Hold {
    Worker& worker;
    bool gave_back = false;
    ~Hold() { set(false); }
    bool set(bool on) {
      const std::lock_guard lock(worker.mutex_);
      const auto is_due = [](const auto& open) { return open->due; };
      const bool none = std::all_of(worker.loading_.begin(), worker.loading_.end(), is_due);
      worker.holds_loads_back_ = on && (gave_back || none);
      return none;
    }
  } hold{*this};
  for (;;) {
    const bool may_wait = hold.set(true);
    const bool asks = may_wait || budget_->available() >= bytes;
    Result<memory::Admitted> admitted = memory::Admitted();
    if (asks) admitted = budget_->admission().admit({bytes, 0, 0}, what, {}, may_wait);
    if (asks && admitted.ok()) return admitted;
    hold.set(hold.gave_back);
    if (wait_for_store()) continue;
    const bool gives = give_back_load();
    if (!gives && may_wait) return admitted;
    hold.gave_back |= gives;
  }
}

}  // namespace plimsoll::trace
