// SPDX-License-Identifier: Apache-2.0
#include "runtime/planner/remat/search_clock.h"

#include <chrono>

namespace plimsoll::planner {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

SearchClock::SearchClock(std::int64_t work, double seconds) : work_(work), seconds_(seconds) {
  if (seconds_ > 0) start_ = now();
}

double SearchClock::done() const {
  if (seconds_ > 0) return (now() - start_) / seconds_;
  return work_ > 0 ? static_cast<double>(spent_) / static_cast<double>(work_) : 1;
}

}  // namespace plimsoll::planner
