// SPDX-License-Identifier: Apache-2.0
// How a Worker moves values, beside what it runs.
#include <algorithm>
#include <string>
#include <utility>

#include "runtime/trace/execution.h"

namespace plimsoll::trace {

void Worker::move_now(const Work& work) {
  switch (work.movement) {
    case Movement::run:
      break;
    case Movement::drop:
      drop_now(work.value);
      break;
    case Movement::store:
      store_now(work.value, *work.tier);
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
      settle(work.value.get());
      work.value->copy.reset();
      work.value->encoded = {};
      break;
  }
}

void Worker::drop_now(const std::shared_ptr<Value>& value) {
  settle(value.get());
  if (auto reader = dormant_reader(value.get())) {
    const std::lock_guard lock(mutex_);
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
          reader != nullptr && std::any_of(dormant_.begin(), dormant_.end(),
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

void Worker::store_now(const std::shared_ptr<Value>& value, memory::Tier& tier) {
  settle(value.get());
  auto block = tier.allocate(value->bytes, "a tensor that was given up");
  // Copies that are on their way back give their room up when they have arrived.
  while (!block.ok() && !loading_.empty()) {
    settle_load(0);
    block = tier.allocate(value->bytes, "a tensor that was given up");
  }
  if (!block.ok() || !value->device) return not_stored(value);
  value->copy = std::move(*block);
  value->tier = &tier;
  memory::TierBlock* to = value->copy.get();
  const void* from = value->device.data();
  const std::int64_t bytes = value->bytes;
  value->transfer = tier.out().enqueue(bytes, [to, from, bytes](device::Stream& stream) {
    return to->store(0, from, bytes, stream);
  });
  storing_.push_back({value, &tier, true});
}

void Worker::settle_store() {
  const Open open = std::move(storing_.front());
  storing_.erase(storing_.begin());
  const Status status = open.tier->out().wait(*open.value->transfer);
  open.value->transfer = nullptr;
  if (!status.ok()) {
    open.value->copy.reset();
    return not_stored(open.value);
  }
  if (open.drop) drop_now(open.value);
}

void Worker::load_now(const std::shared_ptr<Value>& value, memory::Tier& tier) {
  // It may not have left yet.
  for (Open& open : storing_) {
    if (open.value == value) open.drop = false;
  }
  settle(value.get());
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
    memory::TierBlock* from = value->copy.get();
    void* to = value->device.data();
    const std::int64_t bytes = value->bytes;
    value->transfer = tier.in().enqueue(bytes, [from, to, bytes](device::Stream& stream) {
      return from->load(0, to, bytes, stream);
    });
    loading_.push_back({value, &tier, false});
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
  PLIMSOLL_RETURN_IF_ERROR(kernel.launch(*stream_, {inputs, outputs}));
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
  value.device = std::move(device);
  value.encoded = {};
  return ok_status();
}

void Worker::encode_now(const Work& work) {
  const std::shared_ptr<Value>& value = work.value;
  settle(value.get());
  if (value->device) value->codec = work.codec;
  if (!encode(*value, work.bytes).ok()) return not_stored(value);
  drop_now(value);
}

void Worker::decode_now(const std::shared_ptr<Value>& value) {
  settle(value.get());
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
      value.bytes, [from = value.copy.get(), to = device.data(), bytes = value.bytes](
                       device::Stream& stream) { return from->load(0, to, bytes, stream); });
  PLIMSOLL_RETURN_IF_ERROR(value.tier->in().wait(*transfer));
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

void Worker::settle_load(std::size_t i) {
  const Open open = std::move(loading_[i]);
  loading_.erase(loading_.begin() + static_cast<std::ptrdiff_t>(i));
  const Status status = open.tier->in().wait(*open.value->transfer);
  open.value->transfer = nullptr;
  if (status.ok()) {
    open.value->copy.reset();
  } else {
    open.value->device = {};
  }
  end_load(open.value, status);
}

void Worker::end_load(const std::shared_ptr<Value>& value, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    ++value->generation;
    if (!status.ok()) {
      if (first_error_.ok()) first_error_ = status;
      has_failures_.store(true, std::memory_order_release);
    }
    if (--value->pending == 0) {
      value->error = status;
      value->state.store(status.ok() ? ValueState::ready : ValueState::failed,
                         std::memory_order_release);
    }
  }
  changed_.notify_all();
}

void Worker::settle(const Value* value) {
  for (std::size_t i = 0; i < loading_.size(); ++i) {
    if (loading_[i].value.get() == value) {
      settle_load(i);
      return;
    }
  }
  while (std::any_of(storing_.begin(), storing_.end(),
                     [&](const Open& open) { return open.value.get() == value; })) {
    settle_store();
  }
}

Result<memory::Allocation> Worker::allocate(std::int64_t bytes, memory::Tag tag,
                                            std::string_view what,
                                            const memory::ArenaParts& parts) {
  for (;;) {
    auto allocation = budget_->admission().allocate(bytes, tag, what, parts);
    if (allocation.ok() || storing_.empty()) return allocation;
    settle_store();
  }
}

// Room for all that the execution takes beside what it reads: runs of other threads share the
// budget, and are waited for.
Result<memory::Admitted> Worker::admit(const Execution& execution) {
  std::int64_t bytes = execution.executable->plan().peak_bytes;
  for (const auto& value : execution.parameters) {
    if (!value->on_host) bytes -= value->bytes;
  }
  for (;;) {
    auto admitted = budget_->admission().admit({std::max<std::int64_t>(0, bytes), 0, 0},
                                               "running what was recorded");
    if (admitted.ok() || storing_.empty()) return admitted;
    settle_store();
  }
}

}  // namespace plimsoll::trace
