// SPDX-License-Identifier: Apache-2.0
#include "examples/serve/batcher.h"

#include <algorithm>
#include <cstring>

#include "examples/serve/http_error.h"

namespace plimsoll::examples::serve {

Batcher::Batcher(const Program& program, const BatchConfig& config, ModelStatistics& statistics)
    : program_(program), config_(config), statistics_(statistics) {
  for (const TensorSpec& spec : program.inputs()) inputs_.emplace_back(spec.bytes);
  for (const TensorSpec& spec : program.outputs()) outputs_.emplace_back(spec.bytes);
  thread_ = std::thread([this] { work(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

void Batcher::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                  std::int64_t rows, Clock::time_point deadline) {
  Waiting waiting{inputs, outputs, rows, deadline, Clock::now(), false, nullptr};
  std::unique_lock lock(mutex_);
  queue_.push_back(&waiting);
  arrived_.notify_all();
  done_.wait(lock, [&] { return waiting.done; });
  if (waiting.error != nullptr) std::rethrow_exception(waiting.error);
}

bool Batcher::may_share(const Waiting& a, const Waiting& b) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (program_.inputs()[i].has_rows || inputs_[i].empty()) continue;
    if (std::memcmp(a.inputs[i], b.inputs[i], inputs_[i].size()) != 0) return false;
  }
  return true;
}

std::size_t Batcher::together() const {
  std::int64_t rows = 0;
  std::size_t count = 0;
  for (const Waiting* waiting : queue_) {
    rows += waiting->rows;
    if (rows > config_.rows || !may_share(*queue_.front(), *waiting)) break;
    ++count;
  }
  return count;
}

bool Batcher::is_full() const {
  std::int64_t rows = 0;
  const std::size_t count = together();
  for (std::size_t i = 0; i < count; ++i) rows += queue_[i]->rows;
  return rows == config_.rows || count < queue_.size();
}

void Batcher::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const auto until =
        queue_.front()->arrived + std::chrono::microseconds(config_.window_microseconds);
    arrived_.wait_until(lock, until, [&] { return stopping_ || is_full(); });
    std::vector<Waiting*> batch(queue_.begin(),
                                queue_.begin() + static_cast<std::ptrdiff_t>(together()));
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(batch.size()));
    lock.unlock();
    run_batch(batch);
    lock.lock();
    for (Waiting* waiting : batch) waiting->done = true;
    done_.notify_all();
  }
}

void Batcher::run_batch(const std::vector<Waiting*>& batch) {
  const auto start = Clock::now();
  std::vector<Waiting*> running;
  for (Waiting* waiting : batch) {
    if (waiting->deadline > start) {
      running.push_back(waiting);
    } else {
      waiting->error =
          std::make_exception_ptr(busy("the request's time was over before it could run"));
    }
  }
  if (running.empty()) return;
  try {
    const auto row_bytes = [&](const TensorSpec& spec) {
      return spec.bytes / static_cast<std::size_t>(config_.rows);
    };
    std::vector<const void*> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorSpec& spec = program_.inputs()[i];
      std::byte* to = inputs_[i].data();
      for (const Waiting* waiting : running) {
        const std::size_t bytes =
            spec.has_rows ? static_cast<std::size_t>(waiting->rows) * row_bytes(spec) : spec.bytes;
        if (bytes != 0) std::memcpy(to, waiting->inputs[i], bytes);
        if (!spec.has_rows) break;
        to += bytes;
      }
      if (spec.has_rows) std::fill(to, inputs_[i].data() + inputs_[i].size(), std::byte{0});
      inputs.push_back(inputs_[i].data());
    }
    std::vector<void*> outputs;
    for (auto& output : outputs_) outputs.push_back(output.data());
    Clock::time_point deadline = start;
    Clock::duration waited{};
    std::int64_t rows = 0;
    for (const Waiting* waiting : running) {
      deadline = std::max(deadline, waiting->deadline);
      waited += start - waiting->arrived;
      rows += waiting->rows;
    }
    program_.run(inputs, outputs, deadline);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::byte* from = outputs_[i].data();
      for (const Waiting* waiting : running) {
        const std::size_t bytes =
            static_cast<std::size_t>(waiting->rows) * row_bytes(program_.outputs()[i]);
        if (waiting->outputs[i] != nullptr && bytes != 0) {
          std::memcpy(waiting->outputs[i], from, bytes);
        }
        from += bytes;
      }
    }
    statistics_.count_run(static_cast<std::int64_t>(running.size()), rows, waited,
                          Clock::now() - start);
  } catch (...) {
    for (Waiting* waiting : running) waiting->error = std::current_exception();
  }
}

}  // namespace plimsoll::examples::serve
