// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers/transfer_engine.h"
#include "runtime/base/float_environment.h"

#include <chrono>
#include <utility>

namespace plimsoll::memory {

TransferEngine::TransferEngine(std::string name, std::shared_ptr<device::Device> device)
    : state_(std::make_shared<State>()) {
  state_->name = std::move(name);
  state_->device = std::move(device);
}

TransferEngine::~TransferEngine() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->queued.notify_all();
  if (!thread_.joinable()) return;
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

std::shared_ptr<Transfer> TransferEngine::enqueue(std::int64_t bytes,
                                                  std::function<Status(device::Stream&)> work,
                                                  std::function<void(const Status&)> ended) {
  auto transfer = std::make_shared<Transfer>();
  transfer->work_ = std::move(work);
  transfer->ended_ = std::move(ended);
  transfer->bytes_ = bytes;
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back(transfer);
    if (!thread_.joinable()) thread_ = std::thread([state = state_] { loop(*state); });
  }
  state_->queued.notify_one();
  return transfer;
}

Status TransferEngine::wait(Transfer& transfer) {
  std::unique_lock lock(state_->mutex);
  state_->done.wait(lock, [&] { return transfer.done_; });
  return transfer.status_;
}

Status TransferEngine::issue(std::int64_t bytes, const std::function<Status()>& work) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->fail_in > 0 && --state_->fail_in == 0) return injected_failure(*state_);
  }
  PLIMSOLL_RETURN_IF_ERROR(work());
  const std::lock_guard lock(state_->mutex);
  ++state_->statistics.transfers;
  state_->statistics.bytes += bytes;
  return ok_status();
}

Status TransferEngine::injected_failure(const State& state) {
  return unavailable(state.name + ": failure injected by the test hook");
}

void TransferEngine::loop(State& state) {
  const FloatEnvironment floats;
  std::unique_lock lock(state.mutex);
  while (true) {
    state.queued.wait(lock, [&] { return state.stopping || !state.queue.empty(); });
    if (state.queue.empty()) return;
    std::shared_ptr<Transfer> transfer = std::move(state.queue.front());
    state.queue.pop_front();
    const bool fail = state.fail_in > 0 && --state.fail_in == 0;
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    Status status = run(state, *transfer, fail);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    transfer->work_ = nullptr;
    if (transfer->ended_ != nullptr) std::exchange(transfer->ended_, nullptr)(status);
    lock.lock();
    transfer->seconds_ = elapsed.count();
    transfer->started_ = start;
    state.statistics.busy_seconds += elapsed.count();
    if (status.ok()) {
      ++state.statistics.transfers;
      state.statistics.bytes += transfer->bytes_;
    }
    transfer->status_ = std::move(status);
    transfer->done_ = true;
    state.done.notify_all();
    // The last reference to it may be this one, and what goes with it may be the engine.
    lock.unlock();
    transfer.reset();
    lock.lock();
  }
}

Status TransferEngine::run(State& state, Transfer& transfer, bool fail) {
  if (fail) return injected_failure(state);
  if (state.stream == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(state.stream, state.device->create_stream());
  }
  const Status status = transfer.work_(*state.stream);
  const Status finished = state.stream->synchronize();
  return status.ok() ? finished : status;
}

TransferStatistics TransferEngine::statistics() const {
  const std::lock_guard lock(state_->mutex);
  return state_->statistics;
}

std::int64_t TransferEngine::fail_transfer(std::int64_t n) {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->fail_in, n);
}

}  // namespace plimsoll::memory
