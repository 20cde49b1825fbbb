// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/tiers/transfer_engine.h"

#include <chrono>
#include <utility>

namespace plimsoll::memory {

TransferEngine::TransferEngine(std::string name, std::shared_ptr<device::Device> device)
    : name_(std::move(name)), device_(std::move(device)) {}

TransferEngine::~TransferEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  queued_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Transfer> TransferEngine::enqueue(std::int64_t bytes,
                                                  std::function<Status(device::Stream&)> work,
                                                  std::function<void(const Status&)> ended) {
  auto transfer = std::make_shared<Transfer>();
  transfer->work_ = std::move(work);
  transfer->ended_ = std::move(ended);
  transfer->bytes_ = bytes;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(transfer);
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  queued_.notify_one();
  return transfer;
}

Status TransferEngine::wait(Transfer& transfer) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return transfer.done_; });
  return transfer.status_;
}

void TransferEngine::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::shared_ptr<Transfer> transfer = std::move(queue_.front());
    queue_.pop_front();
    const bool fail = fail_in_ > 0 && --fail_in_ == 0;
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    Status status = run(*transfer, fail);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    transfer->work_ = nullptr;
    if (transfer->ended_ != nullptr) std::exchange(transfer->ended_, nullptr)(status);
    lock.lock();
    transfer->seconds_ = elapsed.count();
    transfer->started_ = start;
    statistics_.busy_seconds += elapsed.count();
    if (status.ok()) {
      ++statistics_.transfers;
      statistics_.bytes += transfer->bytes_;
    }
    transfer->status_ = std::move(status);
    transfer->done_ = true;
    done_.notify_all();
  }
}

Status TransferEngine::run(Transfer& transfer, bool fail) {
  if (fail) return unavailable(name_ + ": failure injected by the test hook");
  if (stream_ == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, device_->create_stream());
  }
  const Status status = transfer.work_(*stream_);
  const Status finished = stream_->synchronize();
  return status.ok() ? finished : status;
}

TransferStatistics TransferEngine::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void TransferEngine::fail_transfer(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  fail_in_ = n;
}

}  // namespace plimsoll::memory
