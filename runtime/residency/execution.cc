// SPDX-License-Identifier: Apache-2.0
#include "runtime/residency/execution.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "runtime/base/index.h"

// The worker, seen from a value.
//
// A value's bytes are in device memory, or a copy is kept (in a tier, or encoded in device memory),
// or both while one is on its way, or neither. The recording thread decides and submits movements;
// the worker carries them out in the order of submission:
//   submit(run)     ready -> running -> ready | failed (retryable: it may be tried again)
//   drop            device bytes are free
//   store           a transfer out begins; the device bytes are free when somebody needs them
//   load            ready -> running, a transfer in begins -> ready | failed
//   encode, decode  as store and load, by a kernel
//   discard_copy    the copy is free
// The recording thread is ahead of the worker: its books (live_values.h) say where everything will
// be when all that was submitted has been done. So it never waits, except for results.
//
// What makes this hard is failure in the background. A store that fails leaves the bytes where they
// were; a load that fails leaves the copy; a run that fails for lack of memory has touched nothing
// and becomes *retryable*: it keeps its parameters, what its outputs are read by fails in turn, and
// it is submitted again before anything new is (revive). Drops of what a retryable run reads are
// deferred until it has run or was abandoned. LiveValues::recover() reconciles the books with what
// is really there.
//
// A transfer is *due* when its turn in the queue has come. One that was begun ahead of its turn is
// not: its device bytes can be taken back (give_back_load), since nothing relies on it yet.

namespace plimsoll::trace {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Worker::start_thread() {
  if (thread_.joinable()) return ok_status();
  PLIMSOLL_ASSIGN_OR_RETURN(stream_, budget_->device().create_stream());
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error& error) {
    return unavailable(std::string("starting the execution thread: ") + error.what());
  }
  return ok_status();
}

Status Worker::submit(std::shared_ptr<Execution> execution) {
  PLIMSOLL_RETURN_IF_ERROR(start_thread());
  {
    std::unique_lock lock(mutex_);
    for (const auto& weak : execution->outputs) {
      if (const auto value = weak.lock()) {
        value->producer = execution;
        ++value->pending;
        value->state.store(ValueState::running, std::memory_order_release);
      }
    }
    execution->reported = false;
    changed_.wait(lock, [&] { return waiting_runs_ <= kDepth; });
    ++waiting_runs_;
    queue_.push_back({Movement::run, std::move(execution), nullptr, nullptr, 0, {}});
    ++submitted_;
  }
  changed_.notify_all();
  return ok_status();
}

Status Worker::move(Work work) {
  {
    const std::lock_guard lock(mutex_);
    // What is released while nothing runs is free at once.
    if (work.movement == Movement::drop && queue_.empty() && !waiting_for_transfers_ &&
        retryable_.empty()) {
      ++work.value->generation;
      work.value->device = {};
      return ok_status();
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(start_thread());
  {
    const std::lock_guard lock(mutex_);
    if (work.movement == Movement::load || work.movement == Movement::decode) {
      ++work.value->pending;
      work.value->state.store(ValueState::running, std::memory_order_release);
    }
    const bool transfers = work.movement == Movement::store || work.movement == Movement::load;
    queue_.push_back(std::move(work));
    ++submitted_;
    waiting_transfers_ += transfers;
    if (transfers) look_ahead();
  }
  changed_.notify_all();
  return ok_status();
}

Status Worker::wait(const std::shared_ptr<Value>& value) {
  const auto has_ended = [&] {
    return value->state.load(std::memory_order_acquire) != ValueState::running;
  };
  if (!has_ended()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, has_ended);
  }
  if (value->state.load(std::memory_order_acquire) == ValueState::ready) return ok_status();
  if (value->producer != nullptr && value->producer->reported) {
    PLIMSOLL_RETURN_IF_ERROR(revive());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, has_ended);
    if (value->state.load(std::memory_order_acquire) == ValueState::ready) return ok_status();
  }
  if (value->producer != nullptr) value->producer->reported = true;
  const std::lock_guard lock(mutex_);
  // The caller has it now: wait_all need not say it again.
  if (first_error_.message() == value->error.message()) first_error_ = ok_status();
  return value->error;
}

Status Worker::revive() {
  std::vector<std::shared_ptr<Execution>> again;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : retryable_) {
      auto execution = weak.lock();
      // Those that were revived before, and have not run yet, wait in the queue.
      if (execution == nullptr || !std::exchange(execution->retryable, false)) continue;
      again.push_back(std::move(execution));
    }
  }
  for (auto& execution : again) PLIMSOLL_RETURN_IF_ERROR(submit(std::move(execution)));
  return ok_status();
}

Failures Worker::take_failures() {
  wait_idle();
  const std::lock_guard lock(mutex_);
  for (const auto& weak : retryable_) {
    if (auto execution = weak.lock()) failures_.executions.push_back(std::move(execution));
  }
  has_failures_.store(false, std::memory_order_release);
  return std::exchange(failures_, {});
}

std::vector<Saving> Worker::take_savings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(savings_, {});
}

StoredBytes Worker::stored_bytes() const {
  const std::lock_guard lock(mutex_);
  return stored_bytes_;
}

void Worker::abandon(const std::shared_ptr<Execution>& execution) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(retryable_, [&](const auto& weak) { return weak.lock() == execution; });
    for (const auto& weak : execution->outputs) {
      if (const auto value = weak.lock()) {
        if (value->producer == execution) value->producer.reset();
      }
    }
  }
  drop_deferred();
}

std::vector<std::shared_ptr<Value>> Worker::keep_deferred(const Execution& execution) {
  std::vector<std::shared_ptr<Value>> kept;
  const std::lock_guard lock(mutex_);
  std::erase_if(deferred_, [&](const Deferred& deferred) {
    if (deferred.reader.lock().get() != &execution) return false;
    if (deferred.value->generation == deferred.generation) kept.push_back(deferred.value);
    return true;
  });
  return kept;
}

// What waited for a retryable execution that nobody wants any more goes with the wait: no work may
// follow that would drop it.
void Worker::wait_idle() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !waiting_for_transfers_ && !is_tidying_; });
  }
  drop_deferred();
}

void Worker::wait_for_submitted() {
  std::unique_lock lock(mutex_);
  const std::uint64_t last = submitted_;
  changed_.wait(lock, [&] {
    const bool meets = std::any_of(queue_.begin(), queue_.end(), [](const Work& work) {
      return work.execution != nullptr && work.execution->meets;
    });
    return meets || submitted_ - queue_.size() >= last;
  });
}

Status Worker::wait_all() {
  wait_idle();
  const std::lock_guard lock(mutex_);
  for (const auto& weak : retryable_) {
    if (const auto execution = weak.lock()) execution->reported = true;
  }
  return std::exchange(first_error_, ok_status());
}

void Worker::loop() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      waiting_for_transfers_ = queue_.empty() && !(storing_.empty() && loading_.empty());
      if (!waiting_for_transfers_) {
        if (queue_.empty()) changed_.notify_all();
        changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        work = queue_.front();
      }
    }
    if (work.movement == Movement::run && work.execution == nullptr) {
      // Nothing else to do: what is under way is waited for.
      if (!wait_for_load()) wait_for_store();
      continue;
    }
    if (work.movement == Movement::run) {
      finish(work.execution);
    } else if (!work.done) {
      move_now(work);
    }
    {
      const std::lock_guard lock(mutex_);
      queue_.pop_front();
      waiting_runs_ -= work.movement == Movement::run;
      waiting_transfers_ -= work.movement == Movement::store || work.movement == Movement::load;
      front_is_admitted_ = false;
      look_ahead();
      waiting_for_transfers_ = queue_.empty() && !(storing_.empty() && loading_.empty());
      is_tidying_ = true;
    }
    // The last that holds a retryable execution may be the work itself.
    work = Work();
    drop_deferred();
    {
      const std::lock_guard lock(mutex_);
      is_tidying_ = false;
    }
    changed_.notify_all();
  }
}

// An execution may be tried again as long as it has overwritten nothing: it failed before its first
// step, or it was given no buffer to overwrite.
void Worker::finish(const std::shared_ptr<Execution>& execution) {
  std::vector<std::shared_ptr<Value>> outputs;
  bool untouched = true;
  Status status;
  try {
    status = run(*execution, outputs, untouched);
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::resource_exhausted, "executing: out of host memory");
  } catch (const std::exception& error) {
    status = internal_error(std::string("executing: ") + error.what());
  }
  if (!status.ok() && execution->meets) leave_others(status);
  const bool again = !status.ok() && !execution->meets && (untouched || !execution->donates());
  std::vector<std::shared_ptr<Value>> gone;
  const std::lock_guard lock(mutex_);
  if (!again) gone.swap(execution->parameters);
  if (!status.ok() && first_error_.ok()) first_error_ = status;
  std::erase_if(retryable_, [&](const auto& weak) {
    const auto other = weak.lock();
    return other == nullptr || other == execution;
  });
  if (again) {
    execution->retryable = true;
    execution->failure = status;
    retryable_.push_back(execution);
    has_failures_.store(true, std::memory_order_release);
  }
  for (const auto& output : outputs) {
    if (output == nullptr) continue;
    ++output->generation;
    output->error = status;               // what reads it before that is told
    if (--output->pending > 0) continue;  // it will be made once more
    if (!again && output->producer == execution) output->producer.reset();
    output->state.store(status.ok() ? ValueState::ready : ValueState::failed,
                        std::memory_order_release);
  }
}

void Worker::leave_others(const Status& status) {
  device::Communicator& communicator = *communicator_->communicator;
  const std::lock_guard turn(communicator_->in_turn);
  communicator.leave(
      status.with_context("participant " + std::to_string(communicator.participant())));
}

std::shared_ptr<Execution> Worker::retryable_reader(const Value* value) {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : retryable_) {
    const auto execution = weak.lock();
    if (execution == nullptr) continue;
    for (const auto& parameter : execution->parameters) {
      if (parameter.get() == value) return execution;
    }
  }
  return nullptr;
}

// A buffer that an older, still wanted execution reads must not be overwritten before that one has
// had its second try: what failed there is why this one fails.
Status Worker::check_donations(const Execution& execution) {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : retryable_) {
    const auto older = weak.lock();
    if (older == nullptr || older.get() == &execution) continue;
    for (std::size_t i = 0; i < execution.parameters.size(); ++i) {
      if (execution.executable->residency(static_cast<int>(i)) !=
          planner::ParameterResidency::donated) {
        continue;
      }
      const auto& parameters = older->parameters;
      if (std::find(parameters.begin(), parameters.end(), execution.parameters[i]) !=
          parameters.end()) {
        return older->failure.with_context("an earlier execution of the same data failed");
      }
    }
  }
  return ok_status();
}

Status Worker::run(Execution& execution, std::vector<std::shared_ptr<Value>>& outputs,
                   bool& untouched) {
  for (const auto& weak : execution.outputs) outputs.push_back(weak.lock());
  const executor::Executable& executable = *execution.executable;
  std::vector<void*> parameters;
  for (const auto& value : execution.parameters) {
    wait_for_due(value.get());
    if (!value->on_host && !value->device && value->has_copy()) fetch(*value);
    if (!value->on_host && !value->device) {
      const std::lock_guard lock(mutex_);
      untouched = value->producer != nullptr || value->has_copy();
      return value->error.ok() ? internal_error("executing: an input is not there") : value->error;
    }
    parameters.push_back(value->on_host ? value->host.data() : value->device.data());
  }
  PLIMSOLL_RETURN_IF_ERROR(check_donations(execution));
  for (std::int64_t& bits : execution.scalars) parameters.push_back(&bits);

  PLIMSOLL_ASSIGN_OR_RETURN(memory::Admitted admitted,
                            admit(execution.needed_bytes(), "running what was recorded"));
  {
    const std::lock_guard lock(mutex_);
    front_is_admitted_ = true;
  }
  std::vector<memory::Allocation> allocations(outputs.size());
  std::vector<void*> results(outputs.size(), nullptr);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (executable.output_parameter(static_cast<int>(i)) >= 0) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(
        allocations[i],
        admitted.reservation().allocate(execution.output_bytes[i], execution.output_tags[i],
                                        "output " + std::to_string(i) + " of the trace"));
    results[i] = allocations[i].data();
  }
  const auto start = std::chrono::steady_clock::now();
  executor::RunOptions options{&admitted, {}};
  std::unique_lock<std::timed_mutex> turn;
  if (execution.meets) {
    turn = std::unique_lock(communicator_->in_turn);
    options.communicator = communicator_->communicator.get();
  }
  Status status = executable.run(*stream_, *budget_, {parameters, results}, options);
  // Running out of memory happens before the first step: what is leaving may make room. Anything
  // later may have overwritten donated buffers.
  while (status.shortage() != nullptr && (wait_for_store() || give_back_load())) {
    status = executable.run(*stream_, *budget_, {parameters, results}, options);
  }
  if (!status.ok()) {
    untouched = status.shortage() != nullptr;
    return status;
  }
  if (execution.seconds != nullptr) {
    execution.seconds->store(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const int parameter = executable.output_parameter(static_cast<int>(i));
    if (parameter >= 0) {
      allocations[i] = std::move(execution.parameters[at(parameter)]->device);
      allocations[i].retag(execution.output_tags[i]);
    }
    if (outputs[i] != nullptr) outputs[i]->device = std::move(allocations[i]);
  }
  // Of what was donated, the buffers that no output has taken.
  for (std::size_t i = 0; i < execution.parameters.size(); ++i) {
    if (executable.residency(static_cast<int>(i)) == planner::ParameterResidency::donated) {
      execution.parameters[i]->device = {};
    }
  }
  return ok_status();
}

}  // namespace plimsoll::trace
