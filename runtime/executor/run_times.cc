// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor/run_times.h"

#include <algorithm>

#include "runtime/base/index.h"

namespace plimsoll::executor {

void RunTimes::start() {
  const std::lock_guard lock(mutex_);
  count_ = 0;
  is_on_.store(true, std::memory_order_relaxed);
}

void RunTimes::record(double seconds) {
  const std::lock_guard lock(mutex_);
  if (!is_on() || count_ == kMost) return;
  seconds_[at(count_++)] = seconds;
}

std::int64_t RunTimes::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

double RunTimes::median() const {
  const std::lock_guard lock(mutex_);
  if (count_ == 0) return 0;
  auto sorted = seconds_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((count_ - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count_));
  return *middle;
}

}  // namespace plimsoll::executor
