// SPDX-License-Identifier: Apache-2.0
#include "collectives/communication_thread.h"

#include <system_error>
#include <utility>

#include "runtime/base/float_environment.h"
#include "runtime/device/kernel.h"

namespace plimsoll::collectives {

CommunicationThread::~CommunicationThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status CommunicationThread::begin(device::Stream& stream, Launch launch) {
  Work work{std::move(launch), nullptr};
  PLIMSOLL_ASSIGN_OR_RETURN(work.ready, device_.create_event());
  PLIMSOLL_RETURN_IF_ERROR(stream.record(*work.ready));
  if (stream_ == nullptr) {
    PLIMSOLL_ASSIGN_OR_RETURN(stream_, device_.create_stream());
    stream_->set_communicator(stream.communicator());
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      stream_.reset();
      return Status(StatusCode::resource_exhausted,
                    std::string("no thread for collectives: ") + error.what());
    }
  }
  {
    const std::lock_guard lock(mutex_);
    PLIMSOLL_RETURN_IF_ERROR(first_);
    waiting_.push_back(std::move(work));
  }
  ++begun_;
  changed_.notify_all();
  return ok_status();
}

Status CommunicationThread::wait(std::int64_t count) {
  if (seen_ >= count) return ok_status();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ >= count || !first_.ok(); });
  seen_ = over_;
  return first_;
}

void CommunicationThread::run() {
  const FloatEnvironment floats;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    const Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const Status status = run_one(work);
    lock.lock();
    ++over_;
    if (!status.ok() && first_.ok()) {
      first_ = status;
      waiting_.clear();
    }
    changed_.notify_all();
  }
}

Status CommunicationThread::run_one(const Work& work) {
  const auto& [kernel, inputs, outputs, workspace, name] = work.launch;
  const auto all = [&]() -> Status {
    PLIMSOLL_RETURN_IF_ERROR(stream_->wait(*work.ready));
    const device::KernelArguments arguments{inputs, outputs, workspace};
    PLIMSOLL_RETURN_IF_ERROR(stream_->launch(*kernel, arguments));
    return stream_->synchronize();
  };
  const Status status = all();
  return status.ok() ? status : status.with_context("'" + name + "'");
}

}  // namespace plimsoll::collectives
