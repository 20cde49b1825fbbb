// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/reports.h"

#include <algorithm>
#include <atomic>

#include "runtime/base/index.h"

namespace plimsoll::device::cuda {

Result<std::shared_ptr<Reports>> Reports::create(PinnedMemory& memory) {
  PLIMSOLL_ASSIGN_OR_RETURN(void* const words,
                            memory.allocate(kWords * std::int64_t{sizeof(std::uint32_t)}));
  std::shared_ptr<Reports> made(new Reports(memory, words));
  std::fill_n(made->words_, kWords, 0U);
  return made;
}

Reports::~Reports() { memory_.deallocate(words_); }

std::uint32_t* Reports::next(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (taken_ == kWords) return nullptr;
  names_[at(taken_)] = name;
  return words_ + taken_++;
}

void Reports::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failed_.ok()) failed_ = status;
}

Status Reports::first() const {
  if (!failed_.ok()) return failed_;
  for (int i = 0; i < taken_; ++i) {
    // Another device writes it.
    if (std::atomic_ref<std::uint32_t>(words_[i]).load() == 0) continue;
    return data_loss("'" + names_[at(i)] + "': an element would not come back as it is");
  }
  return ok_status();
}

Status Reports::look() const {
  const std::lock_guard lock(mutex_);
  return first();
}

void Reports::forget() {
  std::fill_n(words_, taken_, 0U);
  failed_ = ok_status();
}

Status Reports::read() {
  const std::lock_guard lock(mutex_);
  Status found = first();
  forget();
  return found;
}

Status Reports::take() {
  const std::lock_guard lock(mutex_);
  Status found = first();
  forget();
  taken_ = 0;
  return found;
}

bool Reports::is_empty() const {
  const std::lock_guard lock(mutex_);
  return taken_ == 0;
}

}  // namespace plimsoll::device::cuda
