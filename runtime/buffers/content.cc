// SPDX-License-Identifier: Apache-2.0
#include "runtime/buffers/content.h"

namespace plimsoll::buffers {

Storage& Storage::operator=(Storage&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  allocation_ = std::move(other.allocation_);
  release_ = std::exchange(other.release_, nullptr);
  host_ = std::move(other.host_);
  is_borrowed_ = std::exchange(other.is_borrowed_, false);
  is_on_host_ = std::exchange(other.is_on_host_, false);
  return *this;
}

// The books first: who is told may give the bytes to somebody else at once.
void Storage::let_go() noexcept {
  allocation_ = memory::Allocation();
  host_ = HostMemory();
  if (release_ != nullptr) std::exchange(release_, nullptr)();
}

void Content::fill(Storage storage) {
  const std::lock_guard lock(mutex_);
  if (!is_abandoned_) storage_ = std::move(storage);
}

bool Content::is_inherited() const {
  const std::lock_guard lock(mutex_);
  return is_inherited_;
}

void Content::finish(State state, const Status& why, bool is_inherited) {
  std::vector<Callback> callbacks;
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
    why_ = why;
    is_inherited_ = is_inherited;
    callbacks.swap(callbacks_);
    done_.notify_all();
  }
  for (const Callback& callback : callbacks) callback(why);
}

void Content::abandon() noexcept {
  {
    Storage storage;  // goes without the lock: its release function is the user's
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
    std::swap(storage, storage_);
  }
  let_go();
}

void Content::let_go() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

bool Content::is_pending() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::pending;
}

Status Content::wait() const {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return state_ != State::pending; });
  return why_;
}

void Content::when_done(Callback callback) {
  Status why;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::pending) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    why = why_;
  }
  callback(why);
}

void* Content::data() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::ready ? storage_.data() : nullptr;
}

bool Content::is_own() const {
  const std::lock_guard lock(mutex_);
  return storage_.is_own();
}

memory::Allocation Content::take() {
  const std::lock_guard lock(mutex_);
  return storage_.take();
}

ContentMaker::~ContentMaker() {
  if (content_ == nullptr) return;
  if (!is_used_) content_->abandon();
  content_->let_go();
}

ContentRef ContentMaker::use() {
  is_used_ = true;
  return ContentRef(content_);
}

ContentRef make_ready(Storage storage) {
  ContentMaker maker;
  maker.fill(std::move(storage));
  maker.set();
  return maker.use();
}

}  // namespace plimsoll::buffers
