// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/cancellation.h"

#include <utility>

namespace plimsoll {

void Cancellation::cancel() {
  const std::lock_guard lock(mutex_);
  if (cancelled_.exchange(true, std::memory_order_acq_rel)) return;
  for (const Watch* watch : watches_) watch->wake_();
}

Cancellation::Watch::Watch(Cancellation* watched, std::function<void()> wake)
    : watched_(watched), wake_(std::move(wake)) {
  if (watched_ == nullptr) return;
  const std::lock_guard lock(watched_->mutex_);
  watched_->watches_.push_back(this);
  if (watched_->is_cancelled()) wake_();
}

Cancellation::Watch::~Watch() {
  if (watched_ == nullptr) return;
  const std::lock_guard lock(watched_->mutex_);
  std::erase(watched_->watches_, this);
}

Status Stop::check() const {
  if (cancellation != nullptr && cancellation->is_cancelled()) {
    return Status(StatusCode::cancelled, "cancelled by the caller");
  }
  if (has_deadline() && Clock::now() >= deadline) {
    return Status(StatusCode::deadline_exceeded, "the deadline has passed");
  }
  return ok_status();
}

}  // namespace plimsoll
