// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/execution.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

namespace plimsoll::trace {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status Worker::submit(std::shared_ptr<Execution> execution) {
  if (!thread_.joinable()) {
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, budget_->device().create_stream());
    try {
      thread_ = std::thread([this] { loop(); });
    } catch (const std::system_error& error) {
      return unavailable(std::string("starting the execution thread: ") + error.what());
    }
  }
  for (const auto& weak : execution->outputs) {
    if (const auto value = weak.lock()) {
      value->producer = execution;
      value->state.store(ValueState::running, std::memory_order_release);
    }
  }
  execution->reported = false;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.size() <= kDepth; });
    queue_.push_back(std::move(execution));
  }
  changed_.notify_all();
  return ok_status();
}

Status Worker::wait(const std::shared_ptr<Value>& value) {
  const auto settled = [&] {
    return value->state.load(std::memory_order_acquire) != ValueState::running;
  };
  if (!settled()) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, settled);
  }
  if (value->state.load(std::memory_order_acquire) == ValueState::ready) return ok_status();
  if (value->producer != nullptr && value->producer->reported) {
    PLIMSOLL_RETURN_IF_ERROR(revive());
    std::unique_lock lock(mutex_);
    changed_.wait(lock, settled);
    if (value->state.load(std::memory_order_acquire) == ValueState::ready) return ok_status();
  }
  if (value->producer != nullptr) value->producer->reported = true;
  const std::lock_guard lock(mutex_);
  // The caller has it now: wait_all need not say it again.
  if (first_error_.message() == value->error.message()) first_error_ = ok_status();
  return value->error;
}

Status Worker::revive() {
  std::vector<std::weak_ptr<Execution>> again;
  {
    // What still waits in the queue may yet fail, and then comes after these.
    std::unique_lock lock(mutex_);
    if (dormant_.empty()) return ok_status();
    changed_.wait(lock, [&] { return queue_.empty(); });
    again = std::exchange(dormant_, {});
  }
  for (const auto& weak : again) {
    if (auto execution = weak.lock()) PLIMSOLL_RETURN_IF_ERROR(submit(std::move(execution)));
  }
  return ok_status();
}

void Worker::wait_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty(); });
}

Status Worker::wait_all() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty(); });
  for (const auto& weak : dormant_) {
    if (const auto execution = weak.lock()) execution->reported = true;
  }
  return std::exchange(first_error_, ok_status());
}

void Worker::loop() {
  for (;;) {
    std::shared_ptr<Execution> execution;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      execution = queue_.front();
    }
    finish(execution);
    execution.reset();
    {
      const std::lock_guard lock(mutex_);
      queue_.pop_front();
    }
    changed_.notify_all();
  }
}

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
  const bool again = !status.ok() && untouched;
  for (const auto& output : outputs) {
    if (output == nullptr) continue;
    output->error = status;
    if (!again) output->producer.reset();
  }
  if (!again) execution->parameters.clear();
  {
    const std::lock_guard lock(mutex_);
    if (!status.ok() && first_error_.ok()) first_error_ = status;
    if (again) dormant_.push_back(execution);
    for (const auto& output : outputs) {
      if (output == nullptr) continue;
      output->state.store(status.ok() ? ValueState::ready : ValueState::failed,
                          std::memory_order_release);
    }
  }
}

// A buffer that an older, still wanted execution reads must not be overwritten before that one has
// had its second try.
Status Worker::check_donations(const Execution& execution) {
  const std::lock_guard lock(mutex_);
  for (const auto& weak : dormant_) {
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
        return failed_precondition("executing: an earlier execution of the same data failed");
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
    if (value->state.load(std::memory_order_acquire) == ValueState::failed) {
      untouched = value->producer != nullptr;
      return value->error;
    }
    parameters.push_back(value->on_host ? value->host.data() : value->device.data());
  }
  PLIMSOLL_RETURN_IF_ERROR(check_donations(execution));
  for (std::int64_t& bits : execution.scalars) parameters.push_back(&bits);

  std::vector<memory::Allocation> allocations(outputs.size());
  std::vector<void*> results(outputs.size(), nullptr);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (executable.output_parameter(static_cast<int>(i)) >= 0) continue;
    PLIMSOLL_ASSIGN_OR_RETURN(allocations[i],
                              budget_->allocate(execution.output_bytes[i], execution.output_tags[i],
                                                "output " + std::to_string(i) + " of the trace"));
    results[i] = allocations[i].data();
  }
  const auto start = std::chrono::steady_clock::now();
  const Status status = executable.run(*stream_, *budget_, {parameters, results});
  if (!status.ok()) {
    // Running out of memory happens before the first step; anything later may have overwritten
    // donated buffers.
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
      allocations[i] = std::move(execution.parameters[static_cast<std::size_t>(parameter)]->device);
      allocations[i].retag(execution.output_tags[i]);
    }
    if (outputs[i] != nullptr) outputs[i]->device = std::move(allocations[i]);
  }
  return ok_status();
}

}  // namespace plimsoll::trace
