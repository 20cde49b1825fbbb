// SPDX-License-Identifier: Apache-2.0
#include "runtime/serve/background_worker.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "runtime/base/one_thread.h"

namespace plimsoll::executor {
namespace {

// Never destroyed: what ends the worker at the end of the process looks at it.
struct SharedWorker {
  ProcessMutex mutex;
  std::weak_ptr<BackgroundWorker> worker;
};

SharedWorker& shared_worker() {
  static auto* const instance = new SharedWorker;
  return *instance;
}

// On Linux a thread has a priority of its own. Where it can't be lowered it works all the same.
void lower_priority() {
  constexpr int kLowest = 19;
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowest));
}

}  // namespace

std::shared_ptr<BackgroundWorker> BackgroundWorker::shared() {
  SharedWorker& known = shared_worker();
  const std::lock_guard lock(known.mutex);
  if (auto worker = known.worker.lock(); worker != nullptr && !worker->mark_.is_inherited()) {
    return worker;
  }
  // Whoever never lets go of it (a context that is not destroyed) must not have it run on into
  // static destructors.
  static const int is_registered = std::atexit([] {
    SharedWorker& last = shared_worker();
    std::shared_ptr<BackgroundWorker> worker;
    {
      const std::lock_guard locked(last.mutex);
      worker = last.worker.lock();
    }
    if (worker != nullptr) worker->end();
  });
  static_cast<void>(is_registered);
  auto made = std::make_shared<BackgroundWorker>();
  known.worker = made;
  return made;
}

std::shared_ptr<BackgroundWorker::Job> BackgroundWorker::submit(
    std::function<void(const Cancellation&)> work) {
  const std::shared_ptr<Job> job(new Job(std::move(work)));
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return nullptr;
    if (!thread_.joinable()) {
      try {
        thread_ = std::thread([this] { loop(); });
      } catch (const std::system_error&) {
        return nullptr;
      }
    }
    queue_.push_back(job);
  }
  changed_.notify_all();
  return job;
}

void BackgroundWorker::cancel(const std::shared_ptr<Job>& job) {
  if (mark_.is_inherited()) return;
  job->cancellation_.cancel();
  std::unique_lock lock(mutex_);
  const auto waiting = std::find(queue_.begin(), queue_.end(), job);
  if (waiting != queue_.end()) {
    queue_.erase(waiting);
    job->ended_ = true;
  }
  changed_.wait(lock, [&] { return job->ended_; });
}

void BackgroundWorker::loop() {
  lower_priority();
  const OneThread alone;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    running_ = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    running_->work_(running_->cancellation_);
    running_->work_ = nullptr;
    lock.lock();
    running_->ended_ = true;
    running_.reset();
    changed_.notify_all();
  }
}

// What waits will never begin.
void BackgroundWorker::end() {
  if (mark_.is_inherited()) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const auto& job : queue_) job->ended_ = true;
    queue_.clear();
    if (running_ != nullptr) running_->cancellation_.cancel();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace plimsoll::executor
